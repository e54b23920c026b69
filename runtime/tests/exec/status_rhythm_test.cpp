// SPDX-License-Identifier: Apache-2.0
// How often the status page is brought up to date, and how far the step is.
#include "exec/status_rhythm.hpp"

#include <gtest/gtest.h>

#include "spillway/runtime/exec/step_progress.hpp"

namespace spillway::runtime {
namespace {

constexpr TimeNs kSecond = 1'000'000'000;

/// Updates within the last half of `seconds` of a program whose ops take `op_time` each.
int updates(StatusRhythm& rhythm, TimeNs op_time, int seconds) {
  static TimeNs now = 0;
  static std::uint64_t op = 0;
  int count = 0;
  const TimeNs end = now + seconds * kSecond;
  while (now < end) {
    now += op_time;
    if (!rhythm.due(++op)) continue;
    rhythm.updated(op, now);
    if (now > end - seconds * kSecond / 2) ++count;
  }
  return count;
}

// 40 ops a second: between 2.5 and 10 updates. One op in 3 seconds: each, after one that was late.
// 20,000 a second: one in 256, the least pace.
TEST(StatusRhythmTest, FollowsThePaceOfTheProgram) {
  StatusRhythm rhythm;
  const int at_forty = updates(rhythm, kSecond / 40, 20);
  EXPECT_GE(at_forty, 25);
  EXPECT_LE(at_forty, 100);
  EXPECT_EQ(updates(rhythm, 3 * kSecond, 60), 10);
  EXPECT_NEAR(updates(rhythm, kSecond / 20'000, 2), 78, 1);
  EXPECT_GE(updates(rhythm, kSecond / 40, 100), 125);
  EXPECT_EQ(updates(rhythm, 3 * kSecond, 60), 10);
}

TEST(StatusRhythmTest, IsDueAtTheFirstOp) { EXPECT_TRUE(StatusRhythm().due(0)); }

TEST(StepProgressTest, KnowsTheLengthOnceTwoStepsWereCounted) {
  StepProgress progress;
  EXPECT_EQ(progress.length(), 0U);
  progress.step_counted(7000);  // the model was made before
  EXPECT_EQ(progress.length(), 0U);
  EXPECT_EQ(progress.began(), 7000U);
  progress.step_counted(11650);
  EXPECT_EQ(progress.length(), 4650U);
  EXPECT_EQ(progress.began(), 11650U);
}

}  // namespace
}  // namespace spillway::runtime
