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

// ---- LookAhead ----------------------------------------------------------------------------------

/// A step whose demand stands op by op, with the rule of look_ahead.hpp checked op by op.
struct Step {
  std::vector<std::uint64_t> demand;
  std::vector<AwayStorage> away;

  LookAhead look(std::uint64_t budget) const {
    return {away,
            [this](std::uint64_t first, std::uint64_t count) {
              Bytes most{};
              for (std::uint64_t i = 0; i < count; ++i) {
                most = std::max(most, Bytes{demand[(first + i) % demand.size()]});
              }
              return most;
            },
            demand.size(), Bytes{budget}};
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

TEST(LookAheadTest, FetchesInOrderOfUseWhatFitsUntilItsUse) {
  // Budget 10. At op 2 the program needs 18 in all: of the 10 that are away 8 must still be then.
  const Step step{.demand = {12, 12, 18, 9, 9},
                  .away = {{.next_use = 4, .bytes = {6}, .fetchable = true},
                           {.next_use = 1, .bytes = {2}, .fetchable = true},
                           {.next_use = 3, .bytes = {2}, .fetchable = true}}};
  LookAhead ahead = step.look(10);
  EXPECT_EQ(ahead.shortage(), Bytes{0});
  EXPECT_EQ(ahead.prefetch(), (std::vector<std::size_t>{1}));
}

TEST(LookAheadTest, WhatStillLeavesOrIsNeverUsedIsNotFetched) {
  const Step step{.demand = {4, 4},
                  .away = {{.next_use = 1, .bytes = {2}, .fetchable = false},
                           {.next_use = residency::kNeverUsed, .bytes = {2}, .fetchable = true}}};
  EXPECT_TRUE(step.look(100).prefetch().empty());
}

TEST(LookAheadTest, TheFarthestUsedLeavesForAPeakThatComesBeforeItsUse) {
  const Step step{.demand = {8, 8, 14, 8, 8, 8}, .away = {}};
  LookAhead ahead = step.look(10);
  EXPECT_EQ(ahead.shortage(), Bytes{4});
  const std::vector<ResidentStorage> residents{{.next_use = 1, .bytes = {9}, .clean = true},
                                               {.next_use = 3, .bytes = {3}, .clean = false},
                                               {.next_use = 5, .bytes = {3}, .clean = false},
                                               {.next_use = 4, .bytes = {3}, .clean = false}};
  EXPECT_EQ(ahead.write_behind(residents), (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(ahead.shortage(), Bytes{0});
}

TEST(LookAheadTest, AmongNearlyEqualOnesTheCleanLeaves) {
  const Step step{.demand = std::vector<std::uint64_t>(200, 12), .away = {}};
  const std::vector<ResidentStorage> residents{{.next_use = 105, .bytes = {3}, .clean = false},
                                               {.next_use = 100, .bytes = {3}, .clean = true}};
  EXPECT_EQ(step.look(10).write_behind(residents), (std::vector<std::size_t>{1}));
}

/// Random steps: nothing is fetched that breaks the rule, nothing leaves without need, and what
/// leaves is not fetched by the next look, which would go on for ever.
TEST(LookAheadTest, RandomStepsKeepTheRuleAndSettle) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3'000; ++round) {
    SCOPED_TRACE(round);
    const std::uint64_t ops = 1 + random() % 30;
    const std::uint64_t budget = 20 + random() % 60;
    Step step;
    for (std::uint64_t op = 0; op < ops; ++op) step.demand.push_back(random() % 120);
    for (std::uint64_t i = random() % 6; i > 0; --i) {
      step.away.push_back({.next_use = 1 + random() % ops,
                           .bytes = {1 + random() % 20},
                           .fetchable = random() % 4 != 0});
    }
    std::vector<ResidentStorage> residents;
    for (std::uint64_t i = random() % 8; i > 0; --i) {
      residents.push_back(
          {.next_use = 1 + random() % ops, .bytes = {1 + random() % 20}, .clean = false});
    }
    LookAhead ahead = step.look(budget);
    const std::int64_t before = step.excess(budget, ops);
    ASSERT_EQ(ahead.shortage().count,
              static_cast<std::uint64_t>(std::max<std::int64_t>(before, 0)));

    const std::vector<std::size_t> leaving = ahead.write_behind(residents);
    std::vector<bool> left(residents.size());
    for (const std::size_t index : leaving) {
      ASSERT_GT(step.excess(budget, residents[index].next_use), 0) << "nobody needed the room";
      step.away.push_back({.next_use = residents[index].next_use,
                           .bytes = residents[index].bytes,
                           .fetchable = true});
      left[index] = true;
    }
    for (std::size_t i = 0; i < residents.size(); ++i) {
      if (left[i]) continue;
      ASSERT_LE(step.excess(budget, residents[i].next_use), 0) << "it could have helped";
    }

    LookAhead next = step.look(budget);
    std::vector<AwayStorage> still_away = step.away;
    for (const std::size_t index : next.prefetch()) {
      const AwayStorage& fetched = step.away[index];
      ASSERT_TRUE(fetched.fetchable);
      still_away[index].bytes = {};
      const Step after{.demand = step.demand, .away = still_away};
      ASSERT_LE(after.excess(budget, fetched.next_use), 0) << "it pushes something out";
    }
    const Step settled{.demand = step.demand, .away = still_away};
    std::vector<ResidentStorage> back;
    for (std::size_t i = 0; i < still_away.size(); ++i) {
      if (still_away[i].bytes.count == 0) {
        back.push_back(
            {.next_use = step.away[i].next_use, .bytes = step.away[i].bytes, .clean = true});
      }
    }
    ASSERT_TRUE(settled.look(budget).write_behind(back).empty()) << "fetched only to leave again";
  }
}

}  // namespace
}  // namespace spillway::runtime
