// SPDX-License-Identifier: Apache-2.0
#include "use_forecast.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace spillway::tf {
namespace {

using Order = std::vector<std::size_t>;

// Objects by number, and rounds of uses of them.
class UseForecastTest : public ::testing::Test {
 protected:
  void round(const Order& order, std::uint64_t kind = 1) {
    for (const std::size_t object : order) forecast_.used(objects_[object]);
    forecast_.round_ended(kind);
  }
  void use(std::size_t object) { forecast_.used(objects_[object]); }
  [[nodiscard]] std::optional<std::uint64_t> next(std::size_t object) const {
    return forecast_.until_next(objects_[object]);
  }

  UseForecast forecast_;
  std::vector<UseForecast::Uses> objects_ = std::vector<UseForecast::Uses>(100);
};

Order up_to(std::size_t count) {
  Order order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  return order;
}

TEST_F(UseForecastTest, NothingIsForetoldBeforeARoundHasComeTwice) {
  round({0, 1, 2});
  EXPECT_EQ(next(0), std::nullopt);
  round({0, 1, 2});
  EXPECT_EQ(next(0), 0U);
  EXPECT_EQ(next(1), 1U);
  EXPECT_EQ(next(2), 2U);
  EXPECT_EQ(next(3), std::nullopt) << "it was never used";
}

TEST_F(UseForecastTest, EachUseOfARoundComesAgain) {
  for (int i = 0; i < 3; ++i) round({0, 1, 0, 2});
  EXPECT_EQ(next(0), 0U);
  use(0);
  EXPECT_EQ(next(0), 1U);
  use(1);
  use(0);
  EXPECT_EQ(next(0), 1U);
  EXPECT_EQ(next(1), 2U);
  EXPECT_EQ(next(2), 0U);
}

TEST_F(UseForecastTest, AUseThatIsLateIsDueAtOnceAndOneThatIsALittleEarlyIsIt) {
  const Order order = up_to(64);  // which may be two uses early or late
  round(order);
  round(order);
  use(1);
  EXPECT_EQ(next(1), 63U) << "not again in the place where it was";
  EXPECT_EQ(next(0), 0U);
  use(2);
  EXPECT_EQ(next(0), 0U);
  use(3);
  EXPECT_EQ(next(0), std::nullopt) << "it is not used any more";
}

TEST_F(UseForecastTest, UsesCloseToEachOtherAreForetoldEach) {
  Order order = up_to(63);
  order.insert(order.begin() + 5, 5);  // twice, one after the other, where either may be two early
  for (int i = 0; i < 3; ++i) round(order);
  for (std::size_t i = 0; i < 5; ++i) use(i);
  EXPECT_EQ(next(5), 0U);
  use(5);
  EXPECT_EQ(next(5), 0U);
  use(5);
  EXPECT_EQ(next(5), 62U);
}

// An evaluation, whose graph has no updates, comes between two rounds.
TEST_F(UseForecastTest, UsesThatComeBetweenOnceAreForgotten) {
  const Order order = up_to(4);
  for (int i = 0; i < 3; ++i) round(order);
  for (int i = 0; i < 50; ++i) use(9);
  round(order);
  EXPECT_EQ(next(0), 0U);
  EXPECT_EQ(next(3), 3U);
  EXPECT_EQ(next(9), std::nullopt);
}

TEST_F(UseForecastTest, WhatIsNotUsedForARoundIsForetoldNoMore) {
  round({0, 1, 2, 3});
  round({0, 1, 2, 3});
  round({1, 2, 3, 3});
  EXPECT_EQ(next(0), std::nullopt);
  EXPECT_EQ(next(1), 0U);
}

TEST_F(UseForecastTest, RoundsOfSeveralKindsMayAlternate) {
  for (int i = 0; i < 3; ++i) {
    round({0, 1, 2}, 1);
    round({3, 4}, 2);
  }
  EXPECT_EQ(next(0), 0U);
  EXPECT_EQ(next(4), 4U);
  round({0, 1, 2}, 1);
  EXPECT_EQ(next(3), 0U);
  EXPECT_EQ(next(0), 2U);
}

TEST_F(UseForecastTest, AnEndThatComesTwiceIsNoRound) {
  round({0, 1});
  round({0, 1});
  forecast_.round_ended(1);
  EXPECT_EQ(next(1), 1U);
}

// With as few uses as these there is no slack.
TEST(UseForecastPropertiesTest, WhereRoundsRepeatTheFutureIsForetold) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t count = 2 + random() % 10;
    Order order = up_to(count);
    for (std::size_t i = 0; i < count; ++i) order.push_back(random() % count);
    std::ranges::shuffle(order, random);
    std::vector<UseForecast::Uses> uses(count);
    UseForecast forecast;
    for (int r = 0; r < 2; ++r) {
      for (const std::size_t object : order) forecast.used(uses[object]);
      forecast.round_ended(1);
    }
    for (std::size_t at = 0; at < order.size(); ++at) {
      for (std::size_t object = 0; object < count; ++object) {
        std::uint64_t distance = 0;
        while (order[(at + distance) % order.size()] != object) ++distance;
        ASSERT_EQ(forecast.until_next(uses[object]), distance) << trial << " " << at;
      }
      forecast.used(uses[order[at]]);
    }
  }
}

}  // namespace
}  // namespace spillway::tf
