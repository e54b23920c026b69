// SPDX-License-Identifier: Apache-2.0
#include "delayed_ends.hpp"

#include <utility>

#include "spillway/runtime/signals_blocked.hpp"

namespace spillway::tf {

DelayedEnds::DelayedEnds(std::uint64_t seed, std::chrono::microseconds longest)
    : random_(seed), microseconds_(0, longest.count()) {
  const runtime::SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

DelayedEnds::~DelayedEnds() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DelayedEnds::hold(End end) {
  {
    const std::lock_guard lock(mutex_);
    const std::chrono::microseconds delay(microseconds_(random_));
    held_.emplace(Clock::now() + delay, std::move(end));
  }
  changed_.notify_all();
}

void DelayedEnds::drain() {
  std::unique_lock lock(mutex_);
  // In a forked child there is no thread to notify, and the C library still counts it as waiting.
  if (held_.empty() && !calling_) return;
  ++hurrying_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return held_.empty() && !calling_; });
  --hurrying_;
}

void DelayedEnds::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (held_.empty()) {
      if (stopping_) return;
      changed_.wait(lock);
      continue;
    }
    const Clock::time_point due = held_.begin()->first;
    if (hurrying_ == 0 && !stopping_ && Clock::now() < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    call_first(lock);
  }
}

void DelayedEnds::call_first(std::unique_lock<std::mutex>& lock) {
  End end = std::move(held_.begin()->second);
  held_.erase(held_.begin());
  calling_ = true;
  lock.unlock();
  end();
  end = nullptr;  // what it holds goes with no lock held
  lock.lock();
  calling_ = false;
  changed_.notify_all();
}

}  // namespace spillway::tf
