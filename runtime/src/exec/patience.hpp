// SPDX-License-Identifier: Apache-2.0
// Limits how long a thread that needs room waits for the ops of others.
//
//     A   |--- op that pins what could leave ----------------|   works, or waits for the disk: B
//     waits B        needs room: looks, looks, looks ...               A waits for B: B must give
//     up
//
// Nobody can know that A waits for B: through a helper thread, a lock, or the barrier of a parallel
// loop. One can only see that nothing gets on: no frame ends, no byte becomes free, no copy
// ends, and no thread with an open frame uses the processor. A thread bears that for a while only.
// It waits for an op that computes however long that takes, up to `total`, which ends what is not
// seen to stand still (a barrier that spins, room that others always take first).
//
// Time is a number here. Not thread-safe: one per request.
#pragma once

#include <cstdint>

#include "spillway/base/ids.hpp"

namespace spillway::runtime {

class Patience {
 public:
  struct Limits {
    TimeNs idle;   ///< while nothing gets on
    TimeNs total;  ///< whatever gets on
  };
  /// Half a minute without any work is longer than ops wait for disks and networks, and short
  /// enough that a person has not given up yet. Ten minutes is longer than an op may honestly run
  /// beside one that needs its memory.
  static constexpr Limits kBeforeAnError{.idle = 30'000'000'000, .total = 600'000'000'000};
  /// For settings in which single ops may exceed the budget: there a mistake costs some bytes, and
  /// waiting costs time.
  static constexpr Limits kBeforeOvershoot{.idle = 1'000'000'000, .total = 600'000'000'000};

  explicit Patience(Limits limits = kBeforeAnError) : limits_(limits) {}

  struct Sight {
    TimeNs now = 0;
    std::uint64_t progress = 0;  ///< any count that grows as frames and copies end and bytes go
    TimeNs worked = 0;     ///< processor time that those waited for have used since the last look
    bool unknown = false;  ///< what they do can't be seen: they may work
  };
  /// Whether to go on waiting after this look.
  bool lasts(const Sight& sight);

  /// From the first look to the last.
  [[nodiscard]] TimeNs waited() const { return now_ - began_; }

 private:
  Limits limits_;
  bool looked_ = false;
  TimeNs began_ = 0;
  TimeNs now_ = 0;
  TimeNs idle_since_ = 0;
  std::uint64_t progress_ = 0;
  TimeNs worked_ = 0;  // since `idle_since_`
};

}  // namespace spillway::runtime
