// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/memory_budget.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "spillway/base/error.hpp"

namespace spillway::runtime {
namespace {

TEST(MemoryBudgetTest, RefusesWhatDoesNotFit) {
  MemoryBudget budget(Bytes{100});
  auto first = budget.try_reserve(Bytes{60}, Overbooking::kRefuse);
  ASSERT_TRUE(first);
  EXPECT_EQ(budget.available(), Bytes{40});
  EXPECT_FALSE(budget.try_reserve(Bytes{41}, Overbooking::kRefuse));
  EXPECT_EQ(budget.used(), Bytes{60}) << "a refusal takes nothing";
  EXPECT_TRUE(budget.try_reserve(Bytes{40}, Overbooking::kRefuse));
}

TEST(MemoryBudgetTest, ADroppedPromiseGivesItsBytesBack) {
  MemoryBudget budget(Bytes{100});
  { const auto promise = budget.try_reserve(Bytes{80}, Overbooking::kRefuse); }
  EXPECT_EQ(budget.used(), Bytes{0});
  EXPECT_EQ(budget.peak(), Bytes{80});
}

TEST(MemoryBudgetTest, SpentBytesStayUntilGivenBack) {
  MemoryBudget budget(Bytes{100});
  {
    auto promise = budget.try_reserve(Bytes{80}, Overbooking::kRefuse);
    promise->spend(Bytes{50});
    EXPECT_EQ(promise->bytes(), Bytes{30});
  }
  EXPECT_EQ(budget.used(), Bytes{50});
  budget.give_back(Bytes{50});
  EXPECT_EQ(budget.used(), Bytes{0});
  EXPECT_THROW(budget.give_back(Bytes{1}), InternalError);
}

TEST(MemoryBudgetTest, MoreThanWasPromisedCannotBeSpent) {
  MemoryBudget budget(Bytes{100});
  auto promise = budget.try_reserve(Bytes{10}, Overbooking::kRefuse);
  EXPECT_THROW(promise->spend(Bytes{11}), InternalError);
  EXPECT_EQ(promise->bytes(), Bytes{10});
}

TEST(MemoryBudgetTest, AMovedPromiseIsGivenBackOnce) {
  MemoryBudget budget(Bytes{100});
  auto promise = budget.try_reserve(Bytes{30}, Overbooking::kRefuse);
  MemoryReservation other = std::move(*promise);
  promise.reset();
  EXPECT_EQ(budget.used(), Bytes{30});
  other = *budget.try_reserve(Bytes{20}, Overbooking::kRefuse);
  EXPECT_EQ(budget.used(), Bytes{20}) << "what was held before goes when another is taken";
}

TEST(MemoryBudgetTest, OverbookingIsCounted) {
  MemoryBudget budget(Bytes{100});
  auto promise = budget.try_reserve(Bytes{130}, Overbooking::kAllow);
  ASSERT_TRUE(promise);
  EXPECT_EQ(budget.overshoot(), Bytes{30});
  EXPECT_EQ(budget.available(), Bytes{0});
  EXPECT_TRUE(budget.try_reserve(Bytes{0}, Overbooking::kRefuse)) << "nothing always fits";
  promise.reset();
  budget.reset_peak();
  EXPECT_EQ(budget.overshoot(), Bytes{0});
  EXPECT_EQ(budget.peak(), Bytes{0});
}

TEST(MemoryBudgetTest, ALowerLimitTakesNothingAway) {
  MemoryBudget budget(Bytes{100});
  auto promise = budget.try_reserve(Bytes{90}, Overbooking::kRefuse);
  budget.set_limit(Bytes{50});
  EXPECT_EQ(budget.used(), Bytes{90});
  EXPECT_EQ(budget.available(), Bytes{0});
  EXPECT_FALSE(budget.try_reserve(Bytes{1}, Overbooking::kRefuse));
}

TEST(MemoryBudgetTest, RandomReservationsAddUp) {
  constexpr std::uint64_t kSeed = 20240607;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  MemoryBudget budget(Bytes{1000});
  std::vector<MemoryReservation> promises;
  std::uint64_t held = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::uint64_t promised = 0;
    for (const auto& promise : promises) promised += promise.bytes().count;
    ASSERT_EQ(budget.used(), Bytes{promised + held});
    ASSERT_LE(budget.used(), budget.limit());
    const std::uint64_t bytes = random() % 400;
    if (random() % 2 == 0) {
      auto promise = budget.try_reserve(Bytes{bytes}, Overbooking::kRefuse);
      ASSERT_EQ(promise.has_value(), promised + held + bytes <= 1000 || bytes == 0);
      if (promise) promises.push_back(std::move(*promise));
    } else if (!promises.empty()) {
      MemoryReservation& promise = promises[random() % promises.size()];
      const std::uint64_t spent = promise.bytes().count / 2;
      promise.spend(Bytes{spent});
      held += spent;
      if (&promise != &promises.back()) promise = std::move(promises.back());
      promises.pop_back();
    } else {
      budget.give_back(Bytes{std::exchange(held, 0)});
    }
  }
}

}  // namespace
}  // namespace spillway::runtime
