// SPDX-License-Identifier: Apache-2.0
#include "answer/comparison_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace spillway::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr TimeNs kMs = 1'000'000;

const std::vector<FrontPoint> kPoints{{"fast", kGiB * 8, 100 * kMs}, {"slow", kGiB * 8, 150 * kMs},
                                      {"fast", kGiB * 4, 120 * kMs}, {"slow", kGiB * 4, 110 * kMs},
                                      {"fast", kGiB * 2, 200 * kMs}, {"slow", kGiB * 6, 110 * kMs}};

TEST(FrontTest, WhatAnotherBeatsInOneAndEqualsInTheOtherIsNotOnIt) {
  std::vector<bool> found;
  found.reserve(kPoints.size());
  for (const FrontPoint& point : kPoints) found.push_back(is_on_front(point, kPoints));
  EXPECT_EQ(found, (std::vector<bool>{true, false, false, true, true, false}));
}

TEST(FrontTest, EqualPointsAreBothOnIt) {
  const std::vector<FrontPoint> equal{{"a", kGiB, kMs}, {"b", kGiB, kMs}};
  EXPECT_TRUE(is_on_front(equal[0], equal) && is_on_front(equal[1], equal));
  const std::string text = front_text(equal, kMs);
  EXPECT_THAT(text, HasSubstr("  a\n"));
  EXPECT_THAT(text, Not(HasSubstr("  b\n")));
}

TEST(FrontTest, BarsAreAsLongAsWhatThePlanAdds) {
  EXPECT_EQ(front_text(kPoints, 100 * kMs),
            "\nfront: less memory only for a longer step, and the reverse\n"
            "  8.00 GiB     100 ms     0.0 %  |                          fast\n"
            "  4.00 GiB     110 ms      10 %  |##                        slow\n"
            "  2.00 GiB     200 ms     100 %  |########################  fast\n");
}

TEST(FrontTest, LinesFitATerminalAndNothingIsDrawnOfNothing) {
  EXPECT_EQ(front_text({}, kMs), "");
  const std::vector<FrontPoint> free{{std::string_view("a-planner-with-a-very-long-name-indeed"),
                                      Bytes{kGiB.count * 1000}, 3600 * 1000 * kMs}};
  std::istringstream lines(front_text(free, 3600 * 1000 * kMs));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

}  // namespace
}  // namespace spillway::tools
