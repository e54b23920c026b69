// SPDX-License-Identifier: Apache-2.0
// Chooses the ops that bring the status page up to date, so that it is fresh and costs nothing.
//
// Updates come every so many ops, and that number follows the program: twice as many after an
// update that came too soon, fewer in proportion after one that was late. So no op reads the clock,
// and a program of one op a second is as up to date as one of a hundred thousand. Times in
// nanoseconds of any one clock, ops in the engine's count. Any thread may ask `due`;
// one at a time calls `updated`. Throws nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "spillway/base/ids.hpp"

namespace spillway::runtime {

class StatusRhythm {
 public:
  static constexpr TimeNs kShortest = 100'000'000;
  static constexpr TimeNs kLongest = 400'000'000;
  /// At the least pace, what an update costs is nothing beside this many ops.
  static constexpr std::uint64_t kMostOps = 256;

  [[nodiscard]] bool due(std::uint64_t op) const {
    return op >= next_.load(std::memory_order_relaxed);
  }

  /// The next op brings the page up to date, whatever its pace.
  void hurry() { next_.store(0, std::memory_order_relaxed); }

  void updated(std::uint64_t op, TimeNs now) {
    const TimeNs since = now - last_;
    if (since < kShortest) ops_between_ = std::min(ops_between_ * 2, kMostOps);
    if (since > kLongest) {
      const auto times_too_late = static_cast<std::uint64_t>(since / kShortest);
      ops_between_ = std::max<std::uint64_t>(2 * ops_between_ / times_too_late, 1);
    }
    last_ = now;
    next_.store(op + ops_between_, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> next_{0};
  std::uint64_t ops_between_ = 1;
  TimeNs last_ = 0;
};

}  // namespace spillway::runtime
