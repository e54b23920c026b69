// SPDX-License-Identifier: Apache-2.0
#include "step_count.hpp"

#include <gtest/gtest.h>

namespace spillway::tf {
namespace {

//   graph   0    1    0    1    1      generator and discriminator, say
//   time    0   10   40   50   90
//   moved   0    5    9   20   26
TEST(StepCountTest, CountsTheGraphThatRanMostOften) {
  StepCount count;
  EXPECT_EQ(count.figures().steps, 0U);
  EXPECT_TRUE(count.begin(0, 100, 0, Bytes{0})) << "its first run";
  EXPECT_EQ(count.figures().steps, 1U);
  EXPECT_EQ(count.figures().last_ns, 0) << "it has not ended";
  EXPECT_TRUE(count.begin(1, 101, 10, Bytes{5}));
  EXPECT_FALSE(count.begin(0, 102, 40, Bytes{9}));
  EXPECT_EQ(count.figures().steps, 2U);
  EXPECT_EQ(count.figures().last_ns, 40);
  EXPECT_EQ(count.figures().moved_in_last, Bytes{9});
  count.begin(1, 103, 50, Bytes{20});
  count.begin(1, 104, 90, Bytes{26});
  EXPECT_EQ(count.figures().steps, 3U);
  EXPECT_EQ(count.figures().last_ns, 40);
  EXPECT_EQ(count.figures().moved_in_last, Bytes{6});
}

// Two runs of three turns each: a turn is no step of its own, as it is none of a recorded trace.
TEST(StepCountTest, TheTurnsOfALoopAreOneRun) {
  StepCount count;
  for (int turn = 0; turn < 6; ++turn) {
    const Bytes moved{static_cast<std::uint64_t>(turn)};
    EXPECT_EQ(count.begin(0, turn < 3 ? 0 : 1, turn * 10, moved), turn == 0);
  }
  EXPECT_EQ(count.figures().steps, 2U);
  EXPECT_EQ(count.figures().last_ns, 30);
  EXPECT_EQ(count.figures().moved_in_last, Bytes{3});
}

}  // namespace
}  // namespace spillway::tf
