// SPDX-License-Identifier: Apache-2.0
// Measures how fast bytes pass in one direction: those that passed, over the time in which any copy
// was under way. Thread-safe; time is a number that it is given.
#pragma once

#include <cstdint>
#include <mutex>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"

namespace spillway::tf {

class LinkMeter {
 public:
  void begin(TimeNs now) {
    const std::lock_guard lock(mutex_);
    if (under_way_++ == 0) since_ = now;
  }
  void end(TimeNs now, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    passed_ += bytes;
    if (--under_way_ == 0) busy_ns_ += now - since_;
  }
  /// `fallback` before anything has passed.
  [[nodiscard]] double bytes_per_second(double fallback) const {
    const std::lock_guard lock(mutex_);
    if (busy_ns_ <= 0 || passed_.count == 0) return fallback;
    return static_cast<double>(passed_.count) * 1e9 / static_cast<double>(busy_ns_);
  }
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  mutable std::mutex mutex_;
  std::uint32_t under_way_ = 0;
  TimeNs since_ = 0;
  TimeNs busy_ns_ = 0;
  Bytes passed_{};
};

}  // namespace spillway::tf
