// SPDX-License-Identifier: Apache-2.0
// Transfers by io_uring: one thread keeps several direct reads and writes under way.
//
//   submit ──> queue ──(eventfd)──> thread: fill free places, enter the kernel once to start them
//                                           and to wait for one that ends, refill, call `done`
//
// The thread owns the ring, which lives while the thread does: a fork never sees one. Work of the
// kernel's for a completion runs when this thread enters (IORING_SETUP_DEFER_TASKRUN), so that it
// interrupts no training thread. No kernel thread polls, and no buffer is registered: pages of the
// pool move between addresses, and a registered buffer would stay with the old page.
//
// Transfers for which io_uring gains nothing go through a TransferPool of its own, whose threads
// start at the first such transfer: descriptors without O_DIRECT, odd addresses and lengths.
//
// Reference: J. Axboe, "Efficient IO with io_uring", kernel.dk/io_uring.pdf, 2019.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "spillway/runtime/transfer/transfer_pool.hpp"
#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::runtime {

/// Chunks under way at once, and how many of them may be background ones. See docs/disk.md for the
/// measurement.
inline constexpr unsigned kRingPlaces = 8;
inline constexpr unsigned kRingBackgroundPlaces = 6;

class TransferRing final : public Transfers {
 public:
  explicit TransferRing(unsigned places = kRingPlaces,
                        unsigned background_places = kRingBackgroundPlaces);
  /// Drains and joins.
  ~TransferRing() override;

  TransferId submit(Transfer transfer, TransferDone done) override;
  bool cancel(TransferId id) override;
  bool hurry(TransferId id) override;
  void drain() override;
  void before_fork() override;
  [[nodiscard]] IoMethod method() const override { return IoMethod::kUring; }
  [[nodiscard]] Bytes bytes_written() const override {
    return Transfers::bytes_written() + odd_.bytes_written();
  }
  [[nodiscard]] Bytes bytes_read() const override {
    return Transfers::bytes_read() + odd_.bytes_read();
  }

 private:
  class Loop;  // what the thread does

  void start_locked();
  void stop();
  void wake();

  const unsigned places_;
  const unsigned background_places_;
  std::mutex mutex_;
  std::condition_variable all_done_;
  std::unique_ptr<TransferQueue> queue_;
  std::uint64_t in_flight_ = 0;  // jobs of the ring's whose `done` has not returned
  bool asleep_ = false;          // the thread waits in the kernel and would take another chunk
  bool stopping_ = false;
  int wake_fd_ = -1;
  std::thread thread_;
  TransferPool odd_;
};

}  // namespace spillway::runtime
