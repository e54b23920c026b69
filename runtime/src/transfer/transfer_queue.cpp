// SPDX-License-Identifier: Apache-2.0
#include "transfer_queue.hpp"

#include <algorithm>
#include <utility>

#include "chunk_io.hpp"
#include "spillway/runtime/steady_time.hpp"

namespace spillway::runtime {

TransferJob::TransferJob(Transfer t, TransferDone d)
    : transfer(t),
      done(std::move(d)),
      direct(is_direct(t.descriptor)),
      chunks(std::max<std::uint64_t>(1, (t.length + kTransferChunk - 1) / kTransferChunk)) {}

bool TransferJob::end_chunk(std::uint64_t length, int chunk_error) {
  if (chunk_error == 0) {
    bytes.fetch_add(length, std::memory_order_relaxed);
  } else {
    int none = 0;
    error.compare_exchange_strong(none, chunk_error, std::memory_order_relaxed);
  }
  // acq_rel: the last to end sees the bytes and errors of all others.
  return unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

TransferResult TransferJob::result() const {
  return {error.load(std::memory_order_relaxed), bytes.load(std::memory_order_relaxed),
          now_ns() - started.load(std::memory_order_relaxed)};
}

TransferId TransferQueue::push(std::shared_ptr<TransferJob> job) {
  last_id_ += 2;
  job->id = last_id_;
  auto& jobs = job->transfer.priority == Priority::kUrgent ? urgent_ : background_;
  jobs.push_back(std::move(job));
  return last_id_;
}

std::optional<TransferChunk> TransferQueue::take(bool background_too) {
  if (!has(background_too)) {
    return std::nullopt;
  }
  const bool background = urgent_.empty();
  Jobs& jobs = background ? background_ : urgent_;
  const std::shared_ptr<TransferJob> front = jobs.front();
  if (front->next_chunk == 0) {
    front->started.store(now_ns(), std::memory_order_relaxed);
  }
  const std::uint64_t begin = front->next_begin;
  const std::uint64_t length = std::min(kTransferChunk, front->transfer.length - begin);
  front->next_begin += length;
  if (++front->next_chunk == front->chunks) {
    jobs.pop_front();
  }
  return TransferChunk{front, begin, length, background};
}

std::shared_ptr<TransferJob> TransferQueue::remove(TransferId id) {
  for (Jobs* jobs : {&urgent_, &background_}) {
    const auto found = std::ranges::find(*jobs, id, &TransferJob::id);
    if (found == jobs->end()) {
      continue;
    }
    if ((*found)->next_chunk != 0) {
      return nullptr;
    }
    std::shared_ptr<TransferJob> job = std::move(*found);
    jobs->erase(found);
    return job;
  }
  return nullptr;
}

void TransferQueue::hurry(TransferId id) {
  for (Jobs* jobs : {&urgent_, &background_}) {
    const auto found = std::ranges::find(*jobs, id, &TransferJob::id);
    if (found == jobs->end()) {
      continue;
    }
    std::shared_ptr<TransferJob> job = std::move(*found);
    jobs->erase(found);
    urgent_.push_front(std::move(job));
    return;
  }
}

}  // namespace spillway::runtime
