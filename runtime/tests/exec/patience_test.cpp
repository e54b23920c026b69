// SPDX-License-Identifier: Apache-2.0
#include "exec/patience.hpp"

#include <gtest/gtest.h>

namespace spillway::runtime {
namespace {

constexpr TimeNs kMs = 1'000'000;
constexpr TimeNs kLook = 5 * kMs;
constexpr Patience::Limits kLimits{.idle = 1'000 * kMs, .total = 20'000 * kMs};

/// Looks every 5 ms, as the engine does, at others that work `worked_per_look` of it and of which
/// something ends every `looks_per_end` looks (0: never). Returns when patience ended.
TimeNs ends_after(TimeNs worked_per_look, std::uint64_t looks_per_end, bool unknown = false) {
  Patience patience(kLimits);
  for (std::uint64_t look = 0;; ++look) {
    const auto now = 7 * kMs + static_cast<TimeNs>(look) * kLook;
    if (!patience.lasts({.now = now,
                         .progress = looks_per_end == 0 ? 3 : look / looks_per_end,
                         .worked = look == 0 ? 0 : worked_per_look,
                         .unknown = unknown})) {
      return patience.waited();
    }
  }
}

TEST(PatienceTest, EndsSoonWhereNothingGetsOn) { EXPECT_EQ(ends_after(0, 0), kLimits.idle); }

// A thread that waits for a lock wakes every 5 ms for some 20 microseconds.
TEST(PatienceTest, WakingNowAndThenIsNoWork) { EXPECT_EQ(ends_after(20'000, 0), kLimits.idle); }

TEST(PatienceTest, AnOpThatComputesIsWaitedFor) {
  EXPECT_EQ(ends_after(kLook, 0), kLimits.total);
  EXPECT_EQ(ends_after(kLook / 20, 0), kLimits.total) << "twenty threads share the processor";
}

TEST(PatienceTest, WhateverEndsGivesHope) {
  EXPECT_EQ(ends_after(0, 150), kLimits.total);
  EXPECT_EQ(ends_after(0, 201), kLimits.idle) << "less often than patience lasts";
}

TEST(PatienceTest, WhatCannotBeSeenMayWork) { EXPECT_EQ(ends_after(0, 0, true), kLimits.total); }

TEST(PatienceTest, WorkThatStopsCountsNoLonger) {
  Patience patience(kLimits);
  TimeNs now = 0;
  for (; now < 5'000 * kMs; now += kLook) {
    ASSERT_TRUE(patience.lasts({.now = now, .progress = 0, .worked = kLook, .unknown = false}));
  }
  const TimeNs stopped = now;
  while (patience.lasts({.now = now, .progress = 0, .worked = 0, .unknown = false})) now += kLook;
  EXPECT_GE(now - stopped, kLimits.idle - 100 * kMs);
  EXPECT_LE(now - stopped, kLimits.idle + 100 * kMs);
}

}  // namespace
}  // namespace spillway::runtime
