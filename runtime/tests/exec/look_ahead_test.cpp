// SPDX-License-Identifier: Apache-2.0
#include "exec/look_ahead.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "spillway/runtime/exec/demand_profile.hpp"

namespace spillway::runtime {
namespace {

// ---- DemandProfile ------------------------------------------------------------------------------

TEST(DemandProfileTest, IsCompleteWhenEveryOpWasSet) {
  DemandProfile profile(3);
  EXPECT_FALSE(DemandProfile().complete());
  profile.set(0, 5);
  profile.set(0, 6);
  profile.set(2, 0);
  EXPECT_FALSE(profile.complete());
  profile.set(1, 4);
  EXPECT_TRUE(profile.complete());
  EXPECT_EQ(profile.most(), 6U);
}

TEST(DemandProfileTest, AnswersLikeAScan) {
  std::mt19937_64 random(1);
  for (const std::uint64_t ops : {1U, 2U, 3U, 7U, 8U, 100U}) {
    DemandProfile profile(ops);
    std::vector<std::uint64_t> plain(ops);
    for (int i = 0; i < 2'000; ++i) {
      const std::uint64_t op = random() % ops;
      profile.set(op, plain[op] = random() % 1'000);
      const std::uint64_t first = random() % (2 * ops);
      const std::uint64_t count = random() % (ops + 2);
      std::uint64_t most = 0;
      for (std::uint64_t k = 0; k < std::min(count, ops); ++k) {
        most = std::max(most, plain[(first + k) % ops]);
      }
      ASSERT_EQ(profile.most(first, count), most) << "ops " << ops << ", " << first << "+" << count;
    }
  }
}

// ---- Prefetches ---------------------------------------------------------------------------------

/// A step whose demand stands op by op, with the rule of look_ahead.hpp checked op by op.
struct Step {
  std::vector<std::uint64_t> demand;
  std::vector<AwayStorage> away;

  std::vector<std::size_t> prefetches(std::uint64_t budget) const {
    const auto needed = [this](std::uint64_t first, std::uint64_t count) {
      Bytes most{};
      for (std::uint64_t i = 0; i < count; ++i) {
        most = std::max(most, Bytes{demand[(first + i) % demand.size()]});
      }
      return most;
    };
    return choose_prefetches(away, needed, demand.size(), Bytes{budget});
  }
  /// Worst excess over the budget at the ops in [0, end).
  std::int64_t excess(std::uint64_t budget, std::uint64_t end) const {
    std::int64_t worst = std::numeric_limits<std::int64_t>::min();
    for (std::uint64_t op = 0; op < std::min<std::uint64_t>(end, demand.size()); ++op) {
      std::int64_t value =
          static_cast<std::int64_t>(demand[op]) - static_cast<std::int64_t>(budget);
      for (const AwayStorage& storage : away) {
        if (storage.next_use > op) value -= static_cast<std::int64_t>(storage.bytes.count);
      }
      worst = std::max(worst, value);
    }
    return worst;
  }
};

TEST(PrefetchTest, InOrderOfUseWhatFitsUntilItsUse) {
  // Budget 10. At op 2 the program needs 18 in all: of the 10 that are away 8 must still be then.
  const Step step{.demand = {12, 12, 18, 9, 9},
                  .away = {{.next_use = 4, .bytes = {6}, .fetchable = true},
                           {.next_use = 1, .bytes = {2}, .fetchable = true},
                           {.next_use = 3, .bytes = {2}, .fetchable = true}}};
  EXPECT_EQ(step.prefetches(10), (std::vector<std::size_t>{1}));
}

TEST(PrefetchTest, WhatStillLeavesOrIsNeverUsedIsNotFetched) {
  const Step step{.demand = {4, 4},
                  .away = {{.next_use = 1, .bytes = {2}, .fetchable = false},
                           {.next_use = residency::kNeverUsed, .bytes = {2}, .fetchable = true}}};
  EXPECT_TRUE(step.prefetches(100).empty());
}

/// Random steps: nothing is fetched that breaks the rule, and the first that is not would.
TEST(PrefetchTest, RandomStepsKeepTheRule) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3'000; ++round) {
    SCOPED_TRACE(round);
    const std::uint64_t ops = 1 + random() % 30;
    const std::uint64_t budget = 20 + random() % 60;
    Step step;
    for (std::uint64_t op = 0; op < ops; ++op) step.demand.push_back(random() % 120);
    for (std::uint64_t i = random() % 8; i > 0; --i) {
      step.away.push_back({.next_use = 1 + random() % ops,
                           .bytes = {1 + random() % 20},
                           .fetchable = random() % 4 != 0});
    }
    const std::vector<std::size_t> fetched = step.prefetches(budget);
    Step after = step;
    for (const std::size_t index : fetched) {
      ASSERT_TRUE(step.away[index].fetchable);
      after.away[index].bytes = {};
      ASSERT_LE(after.excess(budget, step.away[index].next_use), 0) << "it pushes something out";
    }
    std::size_t first = step.away.size();
    for (std::size_t i = 0; i < step.away.size(); ++i) {
      if (!step.away[i].fetchable || std::ranges::find(fetched, i) != fetched.end()) continue;
      if (first == step.away.size() || step.away[i].next_use < step.away[first].next_use) first = i;
    }
    if (first == step.away.size()) continue;
    after.away[first].bytes = {};
    ASSERT_GT(after.excess(budget, step.away[first].next_use), 0) << "it could have come";
  }
}

}  // namespace
}  // namespace spillway::runtime
