// SPDX-License-Identifier: Apache-2.0
// Refining keeps to hybrid's options, one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "plan_fixture.hpp"
#include "planner/planners.hpp"
#include "training_steps.hpp"

namespace spillway::planning {
namespace {

class RefineTest : public PlanFixture {
 protected:
  using Wanted = std::function<bool(const PlanAction&, const Trace&)>;

  static bool lives_on(const PlanAction& action, const Trace& trace) {
    return action.storage != kNoStorage && trace.storages.persistent[to_value(action.storage)] != 0;
  }

  /// Actions of plans that one pass made and refining changed.
  static long count(std::string_view off, const Wanted& wanted) {
    long actions = 0;
    const Machine machine = machine_with_links(2e9, 500);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const Trace trace =
          TrainingStep({.seed = seed, .layers = 5, .weight_bytes = 500'000}).build();
      Budgets given = budgets(trace, machine, 1.6);
      if (off == "persistent") given[Tier::kDevice] = Bytes{peak_bytes(trace).count * 9 / 10};
      Options options(hybrid_planner().options());
      for (const std::string_view option : {"search", "borrow"}) {
        options.set(option, OptionValue(false));
      }
      if (!off.empty()) options.set(off, OptionValue(false));
      // The input of a recomputation comes in before the op that it is for.
      if (off == "prefetch") options.set("recompute", OptionValue(false));
      PlanningContext context = short_search();
      context.time_limit_ns = 3000;
      const auto plan = make(hybrid_planner(), {trace, machine, given}, options, context);
      EXPECT_TRUE(plan) << off << " seed " << seed;
      if (!plan) continue;
      actions += std::count_if(plan->plan.actions.begin(), plan->plan.actions.end(),
                               [&](const PlanAction& action) { return wanted(action, trace); });
    }
    return actions;
  }

  static Wanted of_kind(PlanActionKind kind) {
    return [kind](const PlanAction& action, const Trace&) { return action.kind == kind; };
  }
};

TEST_F(RefineTest, NothingIsComputedAgainWhereThatIsOff) {
  EXPECT_GT(count("", of_kind(PlanActionKind::kRecompute)), 0);
  EXPECT_EQ(count("recompute", of_kind(PlanActionKind::kRecompute)), 0);
}

// A copy in is queued at the op that needs it, if at all; at the end of the step no op does.
TEST_F(RefineTest, NoCopyInIsQueuedAheadWhereThatIsOff) {
  const auto ahead = [](const PlanAction& action, const Trace& trace) {
    if (action.kind != PlanActionKind::kFetch) return false;
    if (to_value(action.at) >= trace.ops.size()) return true;
    for (const StorageLists* lists : {&trace.ops.reads, &trace.ops.writes}) {
      const auto row = (*lists)[action.at];
      if (std::find(row.begin(), row.end(), action.storage) != row.end()) return false;
    }
    return true;
  };
  EXPECT_GT(count("", ahead), 0);
  EXPECT_EQ(count("prefetch", ahead), 0);
}

TEST_F(RefineTest, WhatLivesOnStaysWhereThatIsAsked) {
  EXPECT_GT(count("", lives_on), 0);
  EXPECT_EQ(count("persistent", lives_on), 0);
}

// Without early eviction a copy out begins where room is short, so refining may not begin one.
TEST_F(RefineTest, NoCopyOutBeginsEarlyWhereThatIsOff) {
  const auto with = [](bool refine) {
    const Machine machine = machine_with_links(2e9, 500);
    const Trace trace = TrainingStep({.seed = 2, .layers = 5, .weight_bytes = 500'000}).build();
    const Problem problem{trace, machine, budgets(trace, machine, 1.6)};
    Options options(hybrid_planner().options());
    for (const std::string_view off : {"search", "borrow", "early-eviction"}) {
      options.set(off, OptionValue(false));
    }
    options.set("refine", OptionValue(refine));
    PlanningContext context = short_search();
    context.time_limit_ns = 3000;
    const auto plan = make(hybrid_planner(), problem, options, context);
    EXPECT_TRUE(plan);
    std::vector<PlanAction> out;
    if (!plan) return out;
    std::copy_if(plan->plan.actions.begin(), plan->plan.actions.end(), std::back_inserter(out),
                 [](const PlanAction& a) { return a.kind == PlanActionKind::kEvict; });
    return out;
  };
  const std::vector<PlanAction> passed = with(false);
  ASSERT_FALSE(passed.empty());
  for (const PlanAction& action : with(true)) {
    EXPECT_NE(std::find(passed.begin(), passed.end(), action), passed.end())
        << "storage " << to_value(action.storage) << " leaves at op " << to_value(action.at);
  }
}

}  // namespace
}  // namespace spillway::planning
