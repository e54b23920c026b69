// SPDX-License-Identifier: Apache-2.0
// Moves bytes between memory and the spool file, several pieces at a time.
//
//   submit ──> queue of transfers ──> several chunks under way at once ──> done(result)
//              urgent      [ C: 0 1 ]      C0 A0 A1 A2
//              background  [ A: 0 1 2 3 | B: 0 ]
//
// A transfer is cut into chunks, which are under way at once; `done` is called when the last one
// has ended. Chunks start in the order of submission and end in any order, but each urgent chunk
// starts before every background one, also before those of transfers that have begun. Background
// chunks never take all places, so that an urgent one finds one free.
//
// Memory is read and written in place. Only where the descriptor has O_DIRECT and the address or
// length is not a multiple of kExtentGranule do the odd bytes go through a small aligned buffer.
// Without O_DIRECT each chunk is written through and its pages are dropped behind it, so that an
// error of the disk is seen here and not later, and the page cache does not fill.
//
// Interrupted and short calls are carried on to the end. EIO and EAGAIN are tried kIoRetries more
// times with growing pauses, then reported; any other error at once; end of file is ENODATA.
// Nothing is thrown at the submitter for an I/O error: it travels in the result.
//
// Ownership: the caller keeps `memory` valid and untouched (kIn: unread too) and the descriptor
// open until `done`. Thread-safe. Threads start at the first submit and block all asynchronous
// signals, so a program's handlers run on its own threads.
//
// Two implementations: TransferPool (pread and pwrite) and TransferRing (io_uring).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/settings.hpp"
#include "spillway/runtime/transfer/transfer.hpp"

namespace spillway::runtime {

class Transfers {
 public:
  virtual ~Transfers() = default;
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Throws InternalError if the transfer does not fit its extent, UserError if no thread can be
  /// started; `done` is then never called.
  virtual TransferId submit(Transfer transfer, TransferDone done) = 0;

  /// Copies within memory, between the device's and the host's: by the processor, before it
  /// returns; nothing is returned then and `done` is not called. Where a device's streams copy, or
  /// a virtual clock, it is a transfer like any other. Throws UserError if it cannot be begun.
  virtual std::optional<TransferId> copy(const MemoryCopy& copy, TransferDone done);

  /// Takes back a transfer of which no chunk has started. True: `done` will never be called, is
  /// destroyed by the time this returns, and memory and extent are the caller's again. False: it
  /// has started, or ended, or was never submitted here.
  virtual bool cancel(TransferId id) = 0;

  /// The program now waits for this one: what of it has not started becomes urgent, and first among
  /// the urgent. Does nothing where everything has started. True: it is over thereby, and `done`
  /// will never be called.
  virtual bool hurry(TransferId id) = 0;

  /// Performs a transfer on the calling thread, without threads or locks: for a forked child.
  TransferResult run_here(const Transfer& transfer);

  /// Returns when nothing is in flight and every `done` has returned.
  virtual void drain() = 0;

  /// drain(), then ends the threads, so that none is lost in a fork: direct I/O under way may reach
  /// the wrong process's pages. The caller keeps submits away until fork() has returned; afterwards
  /// it works in parent and child.
  virtual void before_fork() = 0;

  /// What copies are under way and what they wait for, for people who wonder why nothing goes on.
  [[nodiscard]] virtual std::string awaited() const {
    return "the disk of the spool has moved nothing";
  }

  [[nodiscard]] virtual IoMethod method() const = 0;  ///< kUring or kThreads
  /// `io_uring` or `threads`, and why where that was not what one would take.
  [[nodiscard]] std::string description() const;

  [[nodiscard]] virtual Bytes bytes_written() const {
    return {written_.load(std::memory_order_relaxed)};
  }
  [[nodiscard]] virtual Bytes bytes_read() const { return {read_.load(std::memory_order_relaxed)}; }

 protected:
  Transfers() = default;
  void count(Direction direction, std::uint64_t bytes);

 private:
  friend std::unique_ptr<Transfers> make_transfers(IoMethod wanted);

  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> read_{0};
  std::string refusal_;
};

/// Why io_uring cannot be used here, in a few words for a person; empty where it can. Asks the
/// kernel.
std::string io_uring_refusal();

/// The transfers that `wanted` asks for: kAuto takes io_uring where there is none against it.
/// Throws UserError with the reason if kUring cannot be had.
std::unique_ptr<Transfers> make_transfers(IoMethod wanted);

}  // namespace spillway::runtime
