// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace spillway::runtime {

/// A mutex that threads get in the order in which they asked for it. One that locks it again at
/// once lets those go first who wait, which a std::mutex does not promise.
class FairMutex {
 public:
  void lock() {
    std::unique_lock guard(mutex_);
    const std::uint64_t ticket = tickets_++;
    changed_.wait(guard, [&] { return serving_ == ticket; });
  }
  void unlock() {
    {
      const std::lock_guard guard(mutex_);
      ++serving_;
    }
    changed_.notify_all();
  }
  /// Threads that hold it or wait for it.
  [[nodiscard]] std::uint64_t interested() const {
    const std::lock_guard guard(mutex_);
    return tickets_ - serving_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t tickets_ = 0;
  std::uint64_t serving_ = 0;
};

}  // namespace spillway::runtime
