// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/page_opener.hpp"

#include <pthread.h>

#include <system_error>

#include "spillway/runtime/signals_blocked.hpp"

namespace spillway::runtime {

bool PageOpener::add(const std::shared_ptr<PageJob>& job) {
  if (who_ == OpensAhead::kAtOnce) return false;
  {
    const std::lock_guard lock(mutex_);
    if (who_ == OpensAhead::kOnThread && !thread_.joinable()) {
      const SignalsBlocked blocked;
      try {
        thread_ = std::thread([this] { work(); });
      } catch (const std::system_error&) {
        return false;
      }
    }
    queue_.push_back(job);
  }
  changed_.notify_all();
  return true;
}

std::shared_ptr<PageJob> PageOpener::take_next_locked() {
  if (queue_.empty()) return nullptr;
  auto next = std::move(queue_.front());
  queue_.pop_front();
  return next;
}

bool PageOpener::open_next() {
  if (who_ != OpensAhead::kOnCall) return false;
  std::unique_lock lock(mutex_);
  const auto next = take_next_locked();
  lock.unlock();
  if (next != nullptr) next->finish();
  return next != nullptr;
}

void PageOpener::work() {
  pthread_setname_np(pthread_self(), "spillway-pages");
  const DeviceStatus entered = driver_.enter_thread();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    const auto next = take_next_locked();
    if (next == nullptr) return;
    lock.unlock();
    if (entered.done()) {
      next->finish();
    } else {
      next->fail(entered);
    }
    lock.lock();
  }
}

void PageOpener::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  stopping_ = false;
}

void PageOpener::discard() {
  {
    const std::lock_guard lock(mutex_);
    queue_.clear();
  }
  stop();
}

}  // namespace spillway::runtime
