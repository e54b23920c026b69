// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "spillway/runtime/steady_time.hpp"

namespace spillway::runtime {

/// How long calls that map or unmap a card's memory, or another thread that was at them, held up
/// the threads of the program. Thread-safe.
class MappingTime {
 public:
  /// Counts while it lives. One within another would count twice.
  class Scope {
   public:
    explicit Scope(MappingTime& time) : time_(time), begin_(now_ns()) {}
    ~Scope() { time_.nanoseconds_.fetch_add(now_ns() - begin_, std::memory_order_relaxed); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    MappingTime& time_;
    const std::int64_t begin_;
  };

  [[nodiscard]] std::int64_t nanoseconds() const {
    return nanoseconds_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::int64_t> nanoseconds_{0};
};

/// Whether a person is told of it: from a hundredth of the time on, since every program maps all
/// that it needs in its first step.
inline bool mapping_matters(TimeNs mapping, TimeNs elapsed) {
  return elapsed > 0 && mapping > 0 && mapping >= elapsed / 100;
}

}  // namespace spillway::runtime
