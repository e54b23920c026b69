// SPDX-License-Identifier: Apache-2.0
// Chooses the chunk that starts next. Shared by the implementations of Transfers; they lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::runtime {

struct TransferJob {
  TransferJob(Transfer t, TransferDone d);

  Transfer transfer;
  TransferDone done;
  bool direct;           // the descriptor has O_DIRECT
  std::uint64_t chunks;  // one of no bytes has one chunk of none, so that `done` is called
  TransferId id = 0;
  std::uint64_t next_begin = 0;  // these two belong to the queue
  std::uint64_t next_chunk = 0;
  std::atomic<std::uint64_t> unfinished{chunks};
  std::atomic<TimeNs> started{0};
  std::atomic<int> error{0};
  std::atomic<std::uint64_t> bytes{0};

  /// A chunk of `length` bytes ended. True for the last one: the job is to be finished.
  bool end_chunk(std::uint64_t length, int chunk_error);
  [[nodiscard]] bool has_failed() const { return error.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] TransferResult result() const;
};

struct TransferChunk {
  std::shared_ptr<TransferJob> job;
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
  bool background = false;
};

/// Jobs that have chunks left to start. Ids are 2, 4, 6, ... so that an owner of two queues can
/// tell them apart.
class TransferQueue {
 public:
  /// Sets the job's id and returns it.
  TransferId push(std::shared_ptr<TransferJob> job);
  /// The next chunk to start: an urgent one, else, if allowed, a background one.
  std::optional<TransferChunk> take(bool background_too);
  [[nodiscard]] bool has(bool background_too) const {
    return !urgent_.empty() || (background_too && !background_.empty());
  }
  /// The job, if none of its chunks was taken; it is out of the queue then.
  std::shared_ptr<TransferJob> remove(TransferId id);
  /// Puts what is left of it before all others.
  void hurry(TransferId id);

 private:
  using Jobs = std::deque<std::shared_ptr<TransferJob>>;

  Jobs urgent_;
  Jobs background_;
  TransferId last_id_ = 0;
};

}  // namespace spillway::runtime
