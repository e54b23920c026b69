// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/period_finder.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace spillway::runtime {
namespace {

constexpr std::uint64_t kNone = UINT64_MAX;

class PeriodFinderTest : public ::testing::Test {
 protected:
  /// Runs the ops [history_.ops(), end) of a stream that repeats `period` different ones.
  void run_until(std::uint64_t end, std::uint64_t period) {
    while (history_.ops() < end) run_op(1 + history_.ops() % period);
  }
  bool run_op(std::uint64_t signature) {
    history_.add_op(signature);
    return finder_.note(history_, history_.ops() - 1);
  }
  std::vector<PeriodFinder::Candidate> due() {
    std::vector<PeriodFinder::Candidate> found;
    finder_.take_due(history_, history_.ops() - 1,
                     [&](const PeriodFinder::Candidate& period) { found.push_back(period); });
    return found;
  }

  OpHistory history_;
  PeriodFinder finder_;
};

// Op 36 is the first behind a window that was there before, at 16. The two stretches are found to
// be equal back to 20 and 0, so the distance is due at 40.
TEST_F(PeriodFinderTest, ADistanceIsDueWhenItHasHeldForItsLength) {
  run_until(36, 20);
  EXPECT_EQ(finder_.next_due(), kNone);
  EXPECT_TRUE(run_op(1 + 36 % 20));
  EXPECT_EQ(finder_.next_due(), 40U);
  run_until(40, 20);
  EXPECT_TRUE(due().empty());
  run_until(41, 20);
  const auto found = due();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].distance, 20U);
  EXPECT_EQ(found[0].run_begin, 20U);
  EXPECT_EQ(finder_.next_due(), kNone) << "it is told of once";
}

TEST_F(PeriodFinderTest, ADistanceThatHeldForLessIsDropped) {
  run_until(38, 20);
  ASSERT_EQ(finder_.next_due(), 40U);
  run_op(99);
  run_until(41, 20);
  EXPECT_TRUE(due().empty());
  EXPECT_EQ(finder_.next_due(), kNone);
}

TEST_F(PeriodFinderTest, ShortRepetitionsAreTakenSeveralAtATime) {
  run_until(40, 3);
  const auto found = due();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].distance, 18U) << "the least multiple of 3 that is no shorter than a window";
}

TEST_F(PeriodFinderTest, WhatALongerPeriodExplainsIsDropped) {
  run_until(37, 20);
  finder_.drop_up_to(19);
  EXPECT_EQ(finder_.next_due(), 40U);
  finder_.drop_up_to(20);
  EXPECT_EQ(finder_.next_due(), kNone);
}

// The history is full at op 1024: windows of before must be found by their places in the new ring.
TEST_F(PeriodFinderTest, WindowsAreKnownAfterTheHistoryHasGrown) {
  while (history_.ops() < 1000) run_op(1000 + history_.ops());
  run_until(1024, 20);
  ASSERT_TRUE(history_.ops_full());
  history_.grow_ops();
  finder_.grow(history_);
  run_until(1037, 20);
  EXPECT_EQ(finder_.next_due(), 1040U);
}

}  // namespace
}  // namespace spillway::runtime
