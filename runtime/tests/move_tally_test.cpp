// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/move_tally.hpp"

#include <gtest/gtest.h>

namespace spillway::runtime {
namespace {

TEST(MoveTallyTest, TellsWhatMovedMost) {
  MoveTally tally;
  for (int i = 0; i < 3; ++i) tally.add("aten::mm", kMiB);
  tally.add("aten::mm", kMiB * 2);
  tally.add(nullptr, kMiB * 8);
  const auto top = tally.top(2);
  ASSERT_EQ(top.size(), 2U);
  EXPECT_EQ(top[0].name, "unknown 8 MiB");
  EXPECT_EQ(top[0].bytes, kMiB * 8);
  EXPECT_EQ(top[1].name, "aten::mm 1 MiB");
  EXPECT_EQ(top[1].bytes, kMiB * 3);
}

// A new shape in each of 100,000 steps, and one storage that moves in all of them.
TEST(MoveTallyTest, ShapesThatNeverComeAgainTakeNoMemoryAndHideNothing) {
  MoveTally tally;
  constexpr std::uint64_t kSteps = 100'000;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    tally.add("aten::weights", kMiB);
    tally.add("aten::mm", {(64 << 10) + step});
    ASSERT_LE(tally.kinds(), MoveTally::kMostKinds);
  }
  EXPECT_EQ(tally.top(1).front().name, "aten::weights 1 MiB");
  EXPECT_EQ(tally.top(1).front().bytes, Bytes{kSteps << 20});
  EXPECT_EQ(tally.top(5'000).size(), tally.kinds());
}

TEST(MoveTallyTest, KindsThatMovedAlikeAreDiscardedByHalves) {
  MoveTally tally;
  for (std::uint64_t size = 1; size <= MoveTally::kMostKinds; ++size) tally.add("aten::mm", kMiB);
  EXPECT_EQ(tally.kinds(), 1U);
  for (const char* const op : {"a", "b", "c"}) {
    for (std::uint64_t i = 0; i < MoveTally::kMostKinds; ++i) {
      tally.add(op, Bytes{kMiB.count + i});
    }
  }
  EXPECT_LE(tally.kinds(), MoveTally::kMostKinds);
  EXPECT_GE(tally.kinds(), MoveTally::kMostKinds / 2);
}

}  // namespace
}  // namespace spillway::runtime
