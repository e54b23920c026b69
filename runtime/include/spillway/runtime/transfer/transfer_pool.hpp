// SPDX-License-Identifier: Apache-2.0
// Transfers by pread and pwrite on several threads.
//
//   workers take chunks from the front of the queue:   w0: A0   w1: A1   w2: A2   w3: C0
//
// `done` is called by the worker that ends the last chunk. All but one of the workers take
// background chunks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::runtime {

class TransferQueue;
struct TransferChunk;
struct TransferJob;

/// See docs/disk.md for the measurement.
inline constexpr unsigned kDefaultTransferWorkers = 4;

class TransferPool final : public Transfers {
 public:
  explicit TransferPool(unsigned workers = kDefaultTransferWorkers);
  /// Drains and joins.
  ~TransferPool() override;

  TransferId submit(Transfer transfer, TransferDone done) override;
  bool cancel(TransferId id) override;
  bool hurry(TransferId id) override;
  void drain() override;
  void before_fork() override;
  [[nodiscard]] IoMethod method() const override { return IoMethod::kThreads; }

 private:
  void start_workers_locked();
  void stop_workers();
  void work();
  void run_chunk(const TransferChunk& chunk);
  void finish(TransferJob& job);
  [[nodiscard]] bool may_take_background_locked() const;

  const unsigned worker_count_;
  std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable all_done_;
  std::unique_ptr<TransferQueue> queue_;  // jobs with chunks not yet taken
  unsigned in_background_ = 0;            // workers busy with background chunks
  std::uint64_t in_flight_ = 0;           // jobs whose `done` has not returned
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace spillway::runtime
