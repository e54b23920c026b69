// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/transfer/transfer_pool.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "chunk_io.hpp"
#include "spillway/base/error.hpp"
#include "spillway/runtime/signals_blocked.hpp"
#include "transfer_queue.hpp"

namespace spillway::runtime {
namespace {

// The pool whose worker this thread is: waiting for itself would never end.
thread_local const TransferPool* working_for = nullptr;

}  // namespace

TransferPool::TransferPool(unsigned workers)
    : worker_count_(std::max(workers, 1U)), queue_(std::make_unique<TransferQueue>()) {}

TransferPool::~TransferPool() { TransferPool::before_fork(); }

TransferId TransferPool::submit(Transfer transfer, TransferDone done) {
  check_transfer(transfer);
  SPILLWAY_CHECK(done != nullptr, "a transfer without completion");
  auto job = std::make_shared<TransferJob>(transfer, std::move(done));
  const bool one_chunk = job->chunks == 1;
  TransferId id = 0;
  {
    const std::lock_guard lock(mutex_);
    start_workers_locked();
    id = queue_->push(std::move(job));
    ++in_flight_;
  }
  if (one_chunk) {
    work_ready_.notify_one();
  } else {
    work_ready_.notify_all();
  }
  return id;
}

bool TransferPool::cancel(TransferId id) {
  std::shared_ptr<TransferJob> job;  // its completion is destroyed after unlock
  const std::lock_guard lock(mutex_);
  job = queue_->remove(id);
  if (job == nullptr) {
    return false;
  }
  if (--in_flight_ == 0) {
    all_done_.notify_all();
  }
  return true;
}

bool TransferPool::hurry(TransferId id) {
  {
    const std::lock_guard lock(mutex_);
    queue_->hurry(id);
  }
  work_ready_.notify_all();
  return false;
}

void TransferPool::start_workers_locked() {
  if (!workers_.empty()) {
    return;
  }
  const SignalsBlocked blocked;
  workers_.reserve(worker_count_);
  try {
    while (workers_.size() < worker_count_) {
      workers_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error& failure) {
    // Fewer threads are slower, none is an error.
    if (workers_.empty()) {
      throw UserError(fmt::format(
          "Cannot start a thread for disk transfers: {}. Raise the limit on processes (ulimit -u) "
          "or the cgroup's pids.max.",
          failure.what()));
    }
  }
}

bool TransferPool::may_take_background_locked() const {
  return in_background_ + 1 < std::max(workers_.size(), std::size_t{2});
}

void TransferPool::work() {
  working_for = this;
  pthread_setname_np(pthread_self(), "spillway-disk");
  for (;;) {
    std::optional<TransferChunk> chunk;
    {
      std::unique_lock lock(mutex_);
      work_ready_.wait(lock,
                       [this] { return stopping_ || queue_->has(may_take_background_locked()); });
      chunk = queue_->take(may_take_background_locked());
      if (!chunk) {
        return;
      }
      in_background_ += chunk->background ? 1U : 0U;
    }
    run_chunk(*chunk);
  }
}

void TransferPool::run_chunk(const TransferChunk& chunk) {
  TransferJob& job = *chunk.job;
  int error = 0;
  std::uint64_t moved = 0;
  // After a failure the rest would be moved for nothing.
  if (!job.has_failed()) {
    error = move_chunk(job.transfer, job.direct, chunk.begin, chunk.length);
    moved = error == 0 ? chunk.length : 0;
    count(job.transfer.direction, moved);
  }
  if (chunk.background) {
    {
      const std::lock_guard lock(mutex_);
      --in_background_;
    }
    work_ready_.notify_one();  // this thread may be busy with a completion for a while
  }
  if (job.end_chunk(moved, error)) {
    finish(job);
  }
}

void TransferPool::finish(TransferJob& job) {
  // The completion's captures are released before drain() can return.
  std::exchange(job.done, nullptr)(job.result());
  const std::lock_guard lock(mutex_);
  if (--in_flight_ == 0) {
    all_done_.notify_all();
  }
}

void TransferPool::drain() {
  SPILLWAY_CHECK(working_for != this, "a completion waits for itself");
  std::unique_lock lock(mutex_);
  all_done_.wait(lock, [this] { return in_flight_ == 0; });
}

void TransferPool::before_fork() {
  drain();
  stop_workers();
}

void TransferPool::stop_workers() {
  std::vector<std::thread> ending;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ending.swap(workers_);
  }
  work_ready_.notify_all();
  for (std::thread& worker : ending) {
    worker.join();
  }
  const std::lock_guard lock(mutex_);
  stopping_ = false;
}

}  // namespace spillway::runtime
