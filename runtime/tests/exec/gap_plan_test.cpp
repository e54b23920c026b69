// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/gap_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace spillway::runtime {
namespace {

using Chosen = std::vector<bool>;

DemandProfile profile_of(const std::vector<std::uint64_t>& demand) {
  DemandProfile profile(demand.size());
  for (std::uint64_t op = 0; op < demand.size(); ++op) profile.set(op, demand[op]);
  return profile;
}

/// A step that repeats, checked op by op.
struct Step {
  std::vector<std::uint64_t> demand;
  std::vector<Gap> gaps;

  Chosen choose(std::uint64_t budget) const {
    return choose_gaps(gaps, profile_of(demand), Bytes{budget});
  }
  /// Bytes that are held at an op if those are away.
  std::uint64_t held(const Chosen& chosen, std::uint64_t op) const {
    std::uint64_t held = demand[op];
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      const std::uint64_t since = (op + demand.size() - gaps[i].begin) % demand.size();
      if (chosen[i] && since > 0 && since < gaps[i].ops) held -= gaps[i].bytes.count;
    }
    return held;
  }
  bool fits(const Chosen& chosen, std::uint64_t budget) const {
    for (std::uint64_t op = 0; op < demand.size(); ++op) {
      if (held(chosen, op) > budget) return false;
    }
    return true;
  }
  std::uint64_t moved(const Chosen& chosen) const {
    std::uint64_t moved = 0;
    for (std::size_t i = 0; i < gaps.size(); ++i) moved += chosen[i] ? gaps[i].bytes.count : 0;
    return moved;
  }
};

/// Storages of one step, each with uses of its own: the demand is what they hold together, from the
/// first use to the last, or, of those that outlive the step, always.
Step random_step(std::mt19937_64& random, std::uint64_t ops, std::uint64_t most_bytes,
                 bool may_outlive = true) {
  Step step{.demand = std::vector<std::uint64_t>(ops), .gaps = {}};
  for (std::uint64_t storages = 1 + random() % 5; storages > 0; --storages) {
    const Bytes bytes{1 + random() % most_bytes};
    const bool outlives = may_outlive && random() % 2 == 0;
    std::vector<std::uint64_t> uses{random() % ops};
    for (std::uint64_t op = uses[0] + 1; op < ops; ++op) {
      if (random() % 4 == 0) uses.push_back(op);
    }
    for (std::size_t i = 1; i < uses.size(); ++i) {
      step.gaps.push_back({.begin = uses[i - 1], .ops = uses[i] - uses[i - 1], .bytes = bytes});
    }
    if (outlives) {
      step.gaps.push_back(
          {.begin = uses.back(), .ops = ops - uses.back() + uses[0], .bytes = bytes});
    }
    for (std::uint64_t op = 0; op < ops; ++op) {
      if (outlives || (op >= uses[0] && op <= uses.back())) step.demand[op] += bytes.count;
    }
  }
  return step;
}

TEST(GapPlanTest, NothingLeavesWhereAllFits) {
  const Step step{.demand = {8, 10, 8}, .gaps = {{.begin = 0, .ops = 2, .bytes = {4}}}};
  EXPECT_EQ(step.choose(10), Chosen{false});
}

TEST(GapPlanTest, TheGapThatEndsFurthestAwayIsChosen) {
  const Step step{.demand = {4, 8, 12, 8, 4, 4},
                  .gaps = {{.begin = 1, .ops = 2, .bytes = {4}},
                           {.begin = 0, .ops = 5, .bytes = {4}},
                           {.begin = 1, .ops = 3, .bytes = {4}}}};
  EXPECT_EQ(step.choose(8), (Chosen{false, true, false}));
  EXPECT_EQ(step.choose(4), (Chosen{false, true, true}));
}

// A weight is unused when the shortage is foreseen; the state that leaves a moment later is enough,
// and is used last of all.
TEST(GapPlanTest, WhatLeavesLaterButInTimeIsCountedOn) {
  const Step step{.demand = {6, 6, 6, 6, 10, 6},
                  .gaps = {{.begin = 0, .ops = 5, .bytes = {4}},    // the weight
                           {.begin = 3, .ops = 6, .bytes = {4}}}};  // the state
  EXPECT_EQ(step.choose(6), (Chosen{false, true}));
}

// The state is used at the end of the step, and the room is lacking in the next one.
TEST(GapPlanTest, GapsRunOverTheEndOfTheStep) {
  const Step step{
      .demand = {4, 10, 4, 4},
      .gaps = {{.begin = 3, .ops = 4, .bytes = {6}}, {.begin = 0, .ops = 2, .bytes = {6}}}};
  EXPECT_EQ(step.choose(4), (Chosen{true, false}));
}

TEST(GapPlanTest, WhatCannotLeaveIsNotCountedOn) {
  const Step step{
      .demand = {4, 8, 4},
      .gaps = {{.begin = 0, .ops = 3, .bytes = {0}}, {.begin = 0, .ops = 2, .bytes = {4}}}};
  EXPECT_EQ(step.choose(4), (Chosen{false, true}));
}

TEST(GapPlanTest, AsMuchAsCanLeavesWhereThatIsNotEnough) {
  const Step step{.demand = {4, 20, 4}, .gaps = {{.begin = 0, .ops = 2, .bytes = {4}}}};
  EXPECT_EQ(step.choose(8), Chosen{true});
}

/// Steps that repeat: with all gaps the least is held, and where that fits, what is chosen fits,
/// and none of it is chosen where nothing is lacking.
TEST(GapPlanTest, RandomStepsFitWheneverTheyCan) {
  std::mt19937_64 random(11);
  int squeezed = 0;
  for (int round = 0; round < 4'000; ++round) {
    SCOPED_TRACE(round);
    const Step step = random_step(random, 2 + random() % 20, 9);
    const std::uint64_t peak = *std::ranges::max_element(step.demand);
    const std::uint64_t budget = 1 + random() % peak;
    const Chosen chosen = step.choose(budget);
    ASSERT_EQ(chosen.size(), step.gaps.size());
    if (step.fits(Chosen(step.gaps.size(), true), budget)) {
      ASSERT_TRUE(step.fits(chosen, budget));
      squeezed += budget < peak ? 1 : 0;
    }
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (!chosen[i]) continue;
      bool lacking = false;
      for (std::uint64_t k = 1; k < step.gaps[i].ops; ++k) {
        lacking |= step.demand[(step.gaps[i].begin + k) % step.demand.size()] > budget;
      }
      ASSERT_TRUE(lacking) << "gap " << i << " was chosen, and everything fits in it";
    }
  }
  EXPECT_GT(squeezed, 500);
}

/// Storages of one size that live within the step, from the op on where the sweep begins: no other
/// choice moves fewer.
TEST(GapPlanTest, MovesTheFewestOfEqualStorages) {
  std::mt19937_64 random(5);
  int compared = 0;
  for (int round = 0; round < 6'000; ++round) {
    SCOPED_TRACE(round);
    const Step step = random_step(random, 2 + random() % 9, 1, false);
    const bool from_the_least = step.demand[0] == *std::ranges::min_element(step.demand);
    if (!from_the_least || step.gaps.empty() || step.gaps.size() > 10) continue;
    const std::uint64_t budget = random() % *std::ranges::max_element(step.demand);
    std::uint64_t fewest = UINT64_MAX;
    for (std::uint64_t choice = 0; choice < (1U << step.gaps.size()); ++choice) {
      Chosen chosen(step.gaps.size());
      for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = (choice >> i & 1) != 0;
      if (step.fits(chosen, budget)) fewest = std::min(fewest, step.moved(chosen));
    }
    if (fewest == UINT64_MAX) continue;
    ASSERT_EQ(step.moved(step.choose(budget)), fewest);
    ++compared;
  }
  EXPECT_GT(compared, 200);
}

// An op that allocates nothing has no demand of its own, wherever the step was cut.
TEST(GapPlanTest, WhereTheStepIsCutMakesNoDifference) {
  const std::vector<std::uint64_t> demand{0, 12, 4, 4, 12, 12};
  const std::uint64_t ops = demand.size();
  for (std::uint64_t shift = 0; shift < ops; ++shift) {
    Step step{.demand = {},
              .gaps = {{.begin = 3, .ops = 5, .bytes = {4}}, {.begin = 0, .ops = 3, .bytes = {4}}}};
    for (std::uint64_t op = 0; op < ops; ++op) step.demand.push_back(demand[(op + shift) % ops]);
    for (Gap& gap : step.gaps) gap.begin = (gap.begin + ops - shift) % ops;
    EXPECT_EQ(step.choose(8), (Chosen{true, false})) << shift;
  }
}

class GapPlanDueTest : public ::testing::Test {
 protected:
  void choose(std::uint64_t pass, std::uint64_t budget) {
    const std::vector<Gap> gaps{{.begin = 0, .ops = 2, .bytes = {400}}};
    const std::vector<std::uint32_t> ends{1};
    plan_.choose(gaps, ends, 2, profile_of({400, kMost, 400}), pass, Bytes{budget});
  }
  bool is_due(std::uint64_t pass, std::uint64_t budget, std::uint64_t most = kMost) const {
    return plan_.is_due(pass, Bytes{most}, Bytes{budget});
  }

  static constexpr std::uint64_t kMost = 800;
  GapPlan plan_;
};

TEST_F(GapPlanDueTest, ChoosesWhenItIsAskedFirst) {
  EXPECT_FALSE(plan_.away_before(1));
  EXPECT_TRUE(is_due(0, 640));
  choose(0, 640);
  EXPECT_TRUE(plan_.away_before(1));
  EXPECT_FALSE(plan_.away_before(0));
  EXPECT_FALSE(is_due(0, 640));
}

TEST_F(GapPlanDueTest, ChoosesAnewWhenTheBudgetOrTheDemandMoves) {
  choose(0, 640);
  choose(1, 640);
  EXPECT_FALSE(is_due(2, 650)) << "a 64th";
  EXPECT_TRUE(is_due(2, 651));
  EXPECT_TRUE(is_due(2, 629));
  EXPECT_FALSE(is_due(2, 640, 812));
  EXPECT_TRUE(is_due(2, 640, 813));
  EXPECT_FALSE(is_due(1, 100)) << "it was chosen in that pass";
}

TEST_F(GapPlanDueTest, ChoosesSeldomWhileItComesOutAlike) {
  choose(0, 640);
  EXPECT_TRUE(is_due(1, 640)) << "the first choice may rest on half of a demand";
  choose(1, 640);
  EXPECT_FALSE(is_due(2, 640)) << "it came out alike";
  EXPECT_TRUE(is_due(3, 640));
  choose(3, 900);
  EXPECT_FALSE(plan_.away_before(1));
  EXPECT_TRUE(is_due(4, 900)) << "it came out otherwise";
}

TEST_F(GapPlanDueTest, ForgetsWhatItChoseWhenTouchesEndOtherGaps) {
  choose(0, 640);
  plan_.forget();
  EXPECT_FALSE(plan_.away_before(1));
  EXPECT_TRUE(is_due(0, 640));
}

}  // namespace
}  // namespace spillway::runtime
