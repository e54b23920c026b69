// SPDX-License-Identifier: Apache-2.0
// Moves bytes between memory and the spool file, several pieces at a time.
//
//   submit ──> queue of transfers ──> workers take chunks from its front ──> done(result)
//              [ A: 0 1 2 | B: 0 ]      w0: A0   w1: A1   w2: A2   w3: B0
//
// A transfer is cut into chunks and its chunks run on all workers at once; `done` is called by the
// worker that finishes the last one. Chunks start in the order of submission and end in any order.
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
// open until `done`. Thread-safe. Workers start at the first submit and block all asynchronous
// signals, so a program's handlers run on its own threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/transfer/extent_allocator.hpp"

namespace spillway::runtime {

enum class Direction : std::uint8_t {
  kOut,  ///< memory to disk
  kIn,   ///< disk to memory
};

struct Transfer {
  Direction direction = Direction::kOut;
  std::byte* memory = nullptr;
  Extent extent{};
  int descriptor = -1;
  std::uint64_t length = 0;  ///< bytes to move, at most extent.bytes; the rest of the extent is
                             ///< padding and may be overwritten
};

struct TransferResult {
  int error = 0;            ///< errno of the first chunk that failed; 0: all bytes are in place
  std::uint64_t bytes = 0;  ///< moved; on an error those of the chunks that succeeded
  TimeNs duration = 0;      ///< from the start of the first chunk, so without time in the queue
};

/// Called exactly once, on a worker thread, with no lock held. Must not throw, and must not call
/// drain() or before_fork(); it may submit.
using TransferDone = std::function<void(TransferResult)>;

/// Large enough that the cost of a call vanishes and a disk reaches full speed, small enough that a
/// storage of some tens of MiB occupies all workers. See docs/disk.md for the measurement.
inline constexpr std::uint64_t kTransferChunk = std::uint64_t{4} << 20;
inline constexpr int kIoRetries = 3;
inline constexpr unsigned kDefaultTransferWorkers = 4;

class TransferPool {
 public:
  explicit TransferPool(unsigned workers = kDefaultTransferWorkers);
  /// Drains and joins.
  ~TransferPool();
  TransferPool(const TransferPool&) = delete;
  TransferPool& operator=(const TransferPool&) = delete;

  /// Throws InternalError if the transfer does not fit its extent, UserError if no thread can be
  /// started; `done` is then never called.
  void submit(Transfer transfer, TransferDone done);

  /// Performs a transfer on the calling thread, without workers or locks: for a forked child.
  TransferResult run_here(const Transfer& transfer);

  /// Returns when nothing is in flight and every `done` has returned.
  void drain();

  /// drain(), then ends the threads, so that none is lost in a fork. The caller keeps submits away
  /// until fork() has returned; afterwards the pool works in parent and child.
  void before_fork();

  [[nodiscard]] Bytes bytes_written() const { return {written_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] Bytes bytes_read() const { return {read_.load(std::memory_order_relaxed)}; }

 private:
  struct Job;
  struct Chunk {
    std::shared_ptr<Job> job;
    std::uint64_t begin;
    std::uint64_t length;
  };

  void start_workers_locked();
  void stop_workers();
  void work();
  Chunk take_chunk_locked();
  void run_chunk(const Chunk& chunk);
  void finish(Job& job);
  void count(Direction direction, std::uint64_t bytes);

  const unsigned worker_count_;
  std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable all_done_;
  std::deque<std::shared_ptr<Job>> queue_;  // jobs with chunks not yet taken
  std::uint64_t in_flight_ = 0;             // jobs whose `done` has not returned
  bool stopping_ = false;
  std::vector<std::thread> workers_;
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> read_{0};
};

}  // namespace spillway::runtime
