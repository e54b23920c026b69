// SPDX-License-Identifier: Apache-2.0
// Memory that is short on all tiers together: what no plan does without, and plans that get by with
// little more.
#include "planner/shortage.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cost/floor.hpp"
#include "plan_fixture.hpp"
#include "planner/planners.hpp"
#include "spillway/planning/registry.hpp"
#include "spillway/testing/random_steps.hpp"
#include "spillway/testing/small_steps.hpp"
#include "training_steps.hpp"

namespace spillway::planning {
namespace {

using testing::plain_machine;
using testing::StepBuilder;

class ShortageTest : public PlanFixture {
 protected:
  /// Half of the peak on the device, and a share of it on the host.
  static Budgets half_and(const Trace& trace, double host) {
    const auto peak = static_cast<double>(peak_bytes(trace).count);
    Budgets budgets;
    budgets[Tier::kDevice] = Bytes{static_cast<std::uint64_t>(peak / 2)};
    budgets[Tier::kHost] = Bytes{static_cast<std::uint64_t>(peak * host)};
    return budgets;
  }

  /// Hybrid's own passes alone.
  static Options one_pass() {
    Options options(hybrid_planner().options());
    for (const std::string_view off : {"search", "refine", "borrow"}) {
      options.set(off, OptionValue(false));
    }
    return options;
  }
};

/// The remedies for the step on a device of 100 bytes above a host of 1000, where it does not fit.
std::vector<std::string> remedies_of(const Trace& trace) {
  const Machine machine = plain_machine();
  const Problem problem{trace, machine, {{Bytes{100}, Bytes{1000}, Bytes{0}}}};
  const PlanOutcome outcome = hybrid_planner().plan(problem);
  const auto* answer = std::get_if<Infeasible>(&outcome);
  EXPECT_TRUE(answer);
  return answer == nullptr ? std::vector<std::string>() : answer->remedies;
}

// Of such a step's peak 59 % can only be held; half of the activations could be made again. A pass
// that fills the host with whatever is cheap to copy finds it full when the others have to leave.
TEST_F(ShortageTest, TheHostIsLeftToWhatCannotBeMadeAgain) {
  const Machine machine = machine_with_links(55e9, 10'000);
  constexpr std::size_t kShort = 100;
  constexpr std::size_t kTooLongToSearch = 2'400;
  for (const std::size_t layers : {kShort, kTooLongToSearch}) {
    const Trace trace = testing::layered_step(layers);
    const Problem problem{trace, machine, half_and(trace, 0.12)};
    const auto plan = make(hybrid_planner(), problem, one_pass());
    ASSERT_TRUE(plan) << layers << " layers";
    EXPECT_GT(plan->report.recomputations, 0U);
    EXPECT_GT(plan->report.peak[index_of(Tier::kHost)].bytes.count, 0U);
  }
}

//   op      0     1     2     3     4
//   a 100   c                 r           can be made again
//   b 100         c           r           cannot
//   x 60    .     .     .     r     .     lives on
//   d 10                c f
// Beside op 2 x and b are somewhere; a need not be.
TEST_F(ShortageTest, WhatNoPlanDoesWithoutIsWhatNothingMakesAgain) {
  StepBuilder step;
  const StorageId x = step.persistent(60, "x");
  const StorageId a = step.temporary(100, "a");
  const StorageId b = step.temporary(100, "b");
  const StorageId d = step.temporary(10, "d");
  step.op(10, {.creates = {a}, .recomputable = true});
  step.op(10, {.creates = {b}});
  step.op(10, {.creates = {d}, .frees = {d}});
  step.op(10, {.reads = {x, a}, .frees = {a}});
  step.op(10, {.reads = {b}, .frees = {b}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  Problem problem{trace, machine, {}};
  problem.budgets[Tier::kDevice] = Bytes{160};
  problem.budgets[Tier::kHost] = Bytes{99};
  const Floor floor = floor_of_all_tiers(StepModel(problem));
  EXPECT_EQ(floor.op, 3U);
  EXPECT_EQ(floor.bytes, 260U);
  EXPECT_FALSE(make(hybrid_planner(), problem));
  problem.budgets[Tier::kHost] = Bytes{100};
  EXPECT_TRUE(make(hybrid_planner(), problem));
}

TEST_F(ShortageTest, EveryPlanHoldsWhatNoneDoesWithout) {
  int tight = 0;
  const Machine machine = machine_with_links(4e9);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Trace trace = TrainingStep({.seed = seed, .layers = 8}).build();
    for (const double share : {0.05, 0.1, 0.2, 0.3, 0.5}) {
      const Problem problem{trace, machine, half_and(trace, share)};
      const std::uint64_t floor = floor_of_all_tiers(StepModel(problem)).bytes;
      const std::uint64_t there =
          problem.budgets[Tier::kDevice].count + problem.budgets[Tier::kHost].count;
      if (make(hybrid_planner(), problem)) {
        EXPECT_LE(floor, there) << "seed " << seed << " host " << share;
      } else {
        ++tight;
      }
    }
  }
  EXPECT_GT(tight, 0);
}

// A gradient that no op frees ends with the step: after its last use it is given up, not copied.
//   op      0     1     2
//   g 60    c     r
//   a 60                c f
TEST_F(ShortageTest, WhatEndsWithTheStepIsNotCopiedAfterItsLastUse) {
  StepBuilder step;
  const StorageId g = step.temporary(60, "g");
  const StorageId a = step.temporary(60, "a");
  step.op(10, {.creates = {g}});
  step.op(10, {.reads = {g}});
  step.op(10, {.creates = {a}, .frees = {a}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  const Problem problem{trace, machine, {{Bytes{100}, Bytes{100}, Bytes{0}}}};
  const auto plan = make(hybrid_planner(), problem, one_pass());
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->report.step_ns, plan->report.compute_ns);
  EXPECT_TRUE(
      std::none_of(plan->plan.actions.begin(), plan->plan.actions.end(),
                   [](const PlanAction& action) { return action.kind == PlanActionKind::kEvict; }));
}

// Budgets that cannot do are not tried.
TEST_F(ShortageTest, ASmallestBudgetIsLookedForAboveWhatAllTiersLack) {
  const Trace trace = testing::layered_step(20);
  const Machine machine = machine_with_links(12e9, 10'000);
  const Problem problem{trace, machine, half_and(trace, 0)};
  const StepModel model(problem);
  const std::uint64_t floor = floor_of_all_tiers(model).bytes;
  ASSERT_GT(floor, problem.budgets[Tier::kDevice].count);
  std::vector<std::uint64_t> asked;
  const Infeasible answer = explain_shortage(
      problem, model,
      [&](const Budgets& budgets) {
        asked.push_back(budgets[Tier::kDevice].count);
        return true;
      },
      3);
  ASSERT_TRUE(answer.smallest_budget);
  EXPECT_EQ(answer.smallest_budget->count, floor);
  EXPECT_EQ(asked, std::vector<std::uint64_t>{floor});
}

// Each of the bytes said to be short is enough by itself.
TEST_F(ShortageTest, WhatIsSaidToBeShortOnATierIsEnoughThere) {
  const Machine machine = machine_with_links(4e9);
  std::array<int, kTierCount> followed{};
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    const Trace trace = TrainingStep({.seed = seed, .layers = 8}).build();
    for (const double host : {0.0, 0.02, 0.1, 0.2}) {
      const Problem problem{trace, machine, half_and(trace, host)};
      for (const Planner* planner : planners()) {
        const PlanOutcome outcome = planner->plan(problem);
        const auto* answer = std::get_if<Infeasible>(&outcome);
        if (answer == nullptr) continue;
        SCOPED_TRACE(fmt::format("{}, seed {}, host {}", planner->name(), seed, host));
        for (const Tier tier : kTiers) {
          const Bytes missing = answer->short_by[index_of(tier)];
          if (missing == Bytes{0}) continue;
          Budgets enough = problem.budgets;
          enough[tier] += missing;
          EXPECT_TRUE(make(*planner, problem.with(enough))) << to_string(tier);
          ++followed[index_of(tier)];
        }
        if (answer->smallest_budget) {
          EXPECT_EQ(answer->short_by[0], *answer->smallest_budget - problem.budgets[Tier::kDevice]);
        }
      }
    }
  }
  for (const Tier tier : kTiers) EXPECT_GT(followed[index_of(tier)], 0) << to_string(tier);
}

TEST_F(ShortageTest, InputsThatBindAreNamedAndNotTheFirstOp) {
  StepBuilder step;
  const StorageId image = step.temporary(60, "image");
  const StorageId label = step.temporary(60, "label");
  const StorageId out = step.temporary(10, "out");
  step.op(10, {.creates = {out}, .reads = {image}});
  step.op(10, {.reads = {label, out}, .frees = {out, image, label}});
  const Trace trace = step.build();
  const std::vector<std::string> remedies = remedies_of(trace);
  ASSERT_FALSE(remedies.empty());
  EXPECT_THAT(remedies.front(),
              ::testing::HasSubstr("the step begins with inputs of 120 B on the device"));
}

TEST_F(ShortageTest, AnOpOverManyStoragesIsToBeSplit) {
  StepBuilder step;
  std::vector<StorageId> weights;
  weights.reserve(20);
  for (int i = 0; i < 20; ++i) weights.push_back(step.persistent(10, fmt::format("w{}", i)));
  step.op(10, {.reads = weights, .writes = weights});
  const Trace trace = step.build();
  const std::vector<std::string> remedies = remedies_of(trace);
  EXPECT_THAT(remedies, ::testing::Contains(::testing::HasSubstr(
                            "Split op 0 (op0), which touches 20 storages at once")));
}

// No pass is made, and no other planner asked, where counting says that there is no plan.
TEST_F(ShortageTest, WhatCountingRulesOutTakesNoPass) {
  const Trace trace = testing::layered_step(20);
  const Machine machine = machine_with_links(12e9, 10'000);
  const Problem problem{trace, machine, half_and(trace, 0)};
  PlanningContext context;
  int told = 0;
  context.progress = [&](double, std::string_view) { ++told; };
  context.explain = false;
  EXPECT_FALSE(make(hybrid_planner(), problem, Options(hybrid_planner().options()), context));
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace spillway::planning
