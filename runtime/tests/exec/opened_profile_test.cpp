// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/opened_profile.hpp"

#include <gtest/gtest.h>

namespace spillway::runtime {
namespace {

using Blocks = std::vector<Bytes>;

TEST(OpenedProfileTest, TellsTheBlocksOfTheOpsToComeInOrder) {
  OpenedProfile profile(5);
  profile.set(0, {{8}, {9}});
  profile.set(2, {{16}, {4}});
  profile.set(4, {{8}});
  EXPECT_EQ(profile.coming(1, 4), (Blocks{{16}, {4}, {8}}));
  EXPECT_EQ(profile.coming(1, 2), (Blocks{{16}, {4}}));
  EXPECT_EQ(profile.coming(3, 1), Blocks{});
}

TEST(OpenedProfileTest, GoesOnWithTheNextPassAndTellsNoOpTwice) {
  OpenedProfile profile(3);
  profile.set(0, {{1}});
  profile.set(2, {{3}});
  EXPECT_EQ(profile.coming(2, 2), (Blocks{{3}, {1}}));
  EXPECT_EQ(profile.coming(5, 2), (Blocks{{3}, {1}})) << "places may run over the end";
  EXPECT_EQ(profile.coming(0, 100), (Blocks{{1}, {3}}));
}

TEST(OpenedProfileTest, HoldsWhatTheLatestPassOpened) {
  OpenedProfile profile(2);
  profile.set(1, {{3}});
  profile.set(1, {});
  EXPECT_EQ(profile.coming(0, 2), Blocks{});
}

TEST(OpenedProfileTest, KnowsNothingAtFirst) {
  EXPECT_EQ(OpenedProfile().ops(), 0U);
  EXPECT_EQ(OpenedProfile().coming(0, 10), Blocks{});
}

}  // namespace
}  // namespace spillway::runtime
