// SPDX-License-Identifier: Apache-2.0
// How long ops computed where several do at once: the time that passes is divided evenly among
// those that compute, so that the ops of a step take together as long as any of them computed.
//
//     op a   ──────────────┐            computes alone for 10: 10
//     op b         ────────┼─ ─ ─ ┌──   beside a for 8, waits for 5, then alone for 2: 4 + 2
//
// An op that waits for memory has no part in it, and time in which all wait is nobody's: a plan
// that has copies come sooner makes it shorter, an op's own time it does not.
//
// It is the virtual time of processor sharing: it runs at a rate of one over the ops that compute,
// and an op's time is what of it passes while the op does.
//
// A value, which its owner guards. Times never go back but for the little by which threads read
// the clock in another order than they come here; that counts as none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "spillway/base/ids.hpp"

namespace spillway::tf {

class SharedTime {
 public:
  /// One op's part.
  class Part {
    friend class SharedTime;
    double since_ = 0;
    double taken_ = 0;
    bool computing_ = false;
  };

  /// The op begins, or goes on after a wait.
  void computes(Part& part, TimeNs now) {
    if (std::exchange(part.computing_, true)) return;
    pass(now);
    ++computing_;
    part.since_ = virtual_;
  }
  /// The op waits, or ends.
  void rests(Part& part, TimeNs now) {
    if (!std::exchange(part.computing_, false)) return;
    pass(now);
    --computing_;
    part.taken_ += virtual_ - part.since_;
  }
  [[nodiscard]] static TimeNs taken(const Part& part) { return static_cast<TimeNs>(part.taken_); }

  /// What computes now does so no more, and is not shown here again.
  void forget_all() { computing_ = 0; }

 private:
  void pass(TimeNs now) {
    if (computing_ != 0 && now > last_) virtual_ += static_cast<double>(now - last_) / computing_;
    last_ = std::max(last_, now);
  }

  TimeNs last_ = 0;
  double virtual_ = 0;
  std::uint32_t computing_ = 0;
};

}  // namespace spillway::tf
