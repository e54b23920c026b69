// SPDX-License-Identifier: Apache-2.0
// Measures how long the framework stood still for copies: none of its threads worked while a copy
// to or from the store was under way.
//
// A step ends when its last copy has ended, so whatever it is that the framework could go on with
// then waits for a copy, at once or by another one that has not begun. Time in which anything works
// is not counted, be it of no use to what waits. A copy that is made ahead of its need is one under
// way only once somebody waits for it.
//
// Thread-safe. Costs two atomic operations where no copy is under way.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "spillway/base/ids.hpp"

namespace spillway::tf {

class Standstill {
 public:
  /// `now`: nanoseconds of a clock that does not go back.
  explicit Standstill(std::function<TimeNs()> now) : now_(std::move(now)) {}

  /// A thread of the framework's pools begins a piece of work, and ended it.
  void begin_work();
  void end_work();

  /// A copy is under way until the last owner of what is returned has dropped it.
  [[nodiscard]] std::shared_ptr<void> copy_under_way();

  /// With what lasts now.
  [[nodiscard]] TimeNs total() const;

  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  void look();

  const std::function<TimeNs()> now_;
  std::atomic<std::int64_t> working_{0};
  std::atomic<std::int64_t> copies_{0};
  mutable std::mutex mutex_;
  bool stands_ = false;
  TimeNs since_ = 0;  // while it stands
  TimeNs total_ = 0;  // before that
};

}  // namespace spillway::tf
