// SPDX-License-Identifier: Apache-2.0
#include "shared_time.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace spillway::tf {
namespace {

TEST(SharedTimeTest, AnOpThatComputesAloneTakesAllOfTheTime) {
  SharedTime time;
  SharedTime::Part op;
  time.computes(op, 100);
  time.rests(op, 130);
  EXPECT_EQ(SharedTime::taken(op), 30);
}

TEST(SharedTimeTest, OpsThatComputeAtOnceHaveEvenPartsAndWaitsAreNobodys) {
  SharedTime time;
  SharedTime::Part a;
  SharedTime::Part b;
  time.computes(a, 0);
  time.computes(b, 2);
  time.rests(a, 10);
  EXPECT_EQ(SharedTime::taken(a), 2 + 4);
  time.rests(b, 10);  // waits
  time.computes(b, 15);
  time.rests(b, 17);
  EXPECT_EQ(SharedTime::taken(b), 4 + 2);
}

TEST(SharedTimeTest, OneThatRestsAlreadyRestsOn) {
  SharedTime time;
  SharedTime::Part op;
  time.rests(op, 5);
  time.computes(op, 10);
  time.computes(op, 20);
  time.rests(op, 30);
  time.rests(op, 40);
  EXPECT_EQ(SharedTime::taken(op), 20);
}

TEST(SharedTimeTest, AClockThatIsReadInAnotherOrderTakesNothingBack) {
  SharedTime time;
  SharedTime::Part a;
  SharedTime::Part b;
  time.computes(a, 100);
  time.computes(b, 90);
  time.rests(a, 110);
  time.rests(b, 110);
  EXPECT_EQ(SharedTime::taken(a), 5);
  EXPECT_EQ(SharedTime::taken(b), 5);
}

TEST(SharedTimeTest, WhatIsForgottenHasNoPartInWhatComesLater) {
  SharedTime time;
  SharedTime::Part old;
  SharedTime::Part op;
  time.computes(old, 0);
  time.forget_all();
  time.computes(op, 10);
  time.rests(op, 20);
  EXPECT_EQ(SharedTime::taken(op), 10);
}

// Against a sum over each moment.
TEST(SharedTimeTest, AnyOrderOfOpsIsDividedAsMomentByMoment) {
  constexpr std::size_t kOps = 5;
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    SharedTime time;
    std::array<SharedTime::Part, kOps> parts;
    std::array<bool, kOps> computes{};
    std::array<double, kOps> expected{};
    for (TimeNs now = 0; now < 400; ++now) {
      const std::size_t op = random() % kOps;
      if (random() % 3 == 0) {
        computes[op] = !computes[op];
        computes[op] ? time.computes(parts[op], now) : time.rests(parts[op], now);
      }
      const auto count = std::ranges::count(computes, true);
      for (std::size_t i = 0; i < kOps; ++i) {
        if (computes[i]) expected[i] += 1.0 / static_cast<double>(count);
      }
    }
    for (std::size_t i = 0; i < kOps; ++i) {
      time.rests(parts[i], 400);
      EXPECT_NEAR(static_cast<double>(SharedTime::taken(parts[i])), expected[i], 1.01) << round;
    }
  }
}

}  // namespace
}  // namespace spillway::tf
