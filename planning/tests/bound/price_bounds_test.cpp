// SPDX-License-Identifier: Apache-2.0
// The bounds by prices, each alone: of single gaps with room priced, and of states of all storages.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "bound/price_ascent.hpp"
#include "bound/state_ascent.hpp"
#include "bound/state_graph.hpp"
#include "cost/floor.hpp"
#include "spillway/planning/registry.hpp"
#include "spillway/planning/sim/simulator.hpp"
#include "spillway/testing/random_steps.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::planning {
namespace {

using testing::plain_machine;
using testing::StepBuilder;

Problem on_device(const Trace& trace, const Machine& machine, std::uint64_t bytes) {
  Problem problem{trace, machine, {}};
  problem.budgets[Tier::kDevice] = Bytes{bytes};
  problem.budgets[Tier::kHost] = Bytes{1'000'000};
  return problem;
}

double by_gaps(const Problem& problem) {
  const StepModel model(problem);
  const bound::CyclicView view(model);
  return bound::ascend_prices(view, {.capacity = model.budget(Tier::kDevice)}, {}).extra_ns;
}

double by_states(const Problem& problem) {
  const StepModel model(problem);
  const bound::CyclicView view(model);
  return bound::ascend_state_prices(view, {.capacity = model.budget(Tier::kDevice)}, {}).extra_ns;
}

//   op        0     1     2     3
//   a 1000    c           r f         1000 out before op 1, 1000 in before op 2
//   b 1000          c           r f   1000 out before op 2, 1000 in before op 3
// The device holds one of them, so that a cannot come before b is out: 4000 in all. Prices of
// single gaps let both copies before op 2 be made at the same time.
TEST(PriceBoundsTest, CopiesWithoutRoomForBothTakeTurns) {
  StepBuilder step;
  const StorageId a = step.temporary(1000, "a");
  const StorageId b = step.temporary(1000, "b");
  step.op(10, {.creates = {a}});
  step.op(10, {.creates = {b}});
  step.op(10, {.reads = {a}, .frees = {a}});
  step.op(10, {.reads = {b}, .frees = {b}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  const Problem tight = on_device(trace, machine, 1000);
  EXPECT_GE(by_gaps(tight), 3000 - 30);
  EXPECT_LE(by_gaps(tight), 3000);
  EXPECT_GE(by_states(tight), 4000 - 5);
  EXPECT_LE(by_states(tight), 4000);
  const Problem roomy = on_device(trace, machine, 2000);
  EXPECT_EQ(by_gaps(roomy), 0);
  EXPECT_EQ(by_states(roomy), 0);
}

// The same in a budget for one and a half: half of a storage is no use.
TEST(PriceBoundsTest, StoragesAreWhole) {
  StepBuilder step;
  const StorageId a = step.temporary(1000, "a");
  const StorageId b = step.temporary(900, "b");
  const StorageId c = step.temporary(1000, "c");
  step.op(10, {.creates = {a}});
  step.op(10, {.creates = {b}});
  step.op(10, {.creates = {c}, .frees = {c}});
  step.op(10, {.reads = {a}, .frees = {a}});
  step.op(10, {.reads = {b}, .frees = {b}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  // Beside c there are 950 bytes: b stays, or nothing.
  const Problem problem = on_device(trace, machine, 1950);
  EXPECT_GE(by_states(problem), 2000 - 20 - 5);
  EXPECT_LE(by_states(problem), 2000);
}

//   op        0     1     2     3     4
//   x 1000    c     r           .     r f
//   a 1000          c           r f         made from x in 10 ns
//   workspace               2000  1000
// Both are away during op 2, and x beside op 3. x goes out, 990 beyond op 1; for a to be made again
// x comes in; and once more before op 4. Prices of single gaps take a for 10.
TEST(PriceBoundsTest, WhatARecomputationReadsMustComeForIt) {
  StepBuilder step;
  const StorageId x = step.temporary(1000, "x");
  const StorageId a = step.temporary(1000, "a");
  step.op(10, {.creates = {x}});
  step.op(10, {.creates = {a}, .reads = {x}, .recomputable = true});
  step.op(10, {.workspace = 2000});
  step.op(10, {.reads = {a}, .frees = {a}, .workspace = 1000});
  step.op(10, {.reads = {x}, .frees = {x}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  const Problem problem = on_device(trace, machine, 2000);
  EXPECT_LE(by_gaps(problem), 990 + 10 + 1000);
  EXPECT_GE(by_states(problem), 990 + 1000 + 10 + 1000 - 15);
  EXPECT_LE(by_states(problem), 990 + 1000 + 10 + 1000);
}

TEST(PriceBoundsTest, StatesAreLeftToStepsWithFewOfThem) {
  const Trace trace = testing::layered_step(4);
  const Machine machine = plain_machine();
  const Problem problem = on_device(trace, machine, peak_bytes(trace).count / 2);
  EXPECT_GT(trace.ops.size(), 48U);
  EXPECT_EQ(by_states(problem), 0);
}

// Steps of every shape: what lives on, what is written in place, recomputations of recomputations,
// no copies out for what is never written.
TEST(PriceBoundsTest, NoPlanOfAnyPlannerBeatsEither) {
  std::mt19937 random(20);
  const Machine machine = plain_machine();
  int plans = 0;
  int bounded = 0;
  for (std::size_t turn = 0; turn < 60; ++turn) {
    const Trace trace = testing::random_step(random, 6 + turn % 10);
    Problem problem = on_device(trace, machine, 0);
    const std::uint64_t floor = floor_of(StepModel(problem)).bytes;
    for (const double times : {1.0, 1.1, 1.4}) {
      problem.budgets[Tier::kDevice] =
          Bytes{static_cast<std::uint64_t>(times * static_cast<double>(floor))};
      const StepModel model(problem);
      double compute = 0;
      for (const TimeNs ns : model.least_duration) compute += static_cast<double>(ns);
      const double gaps = by_gaps(problem);
      const double states = by_states(problem);
      bounded += states > 0 ? 1 : 0;
      for (const Planner* planner : planners()) {
        PlanningContext context;
        context.now = [looks = TimeNs{0}]() mutable { return looks++; };
        context.time_limit_ns = 300;  // looks at the clock
        context.explain = false;
        const PlanOutcome outcome = planner->plan(problem, Options(planner->options()), context);
        const auto* plan = std::get_if<Plan>(&outcome);
        if (plan == nullptr) continue;
        const SimulationOutcome simulated = simulate(problem, *plan);
        const auto* report = std::get_if<SimulationReport>(&simulated);
        ASSERT_TRUE(report) << planner->name();
        ++plans;
        EXPECT_LE(compute + gaps, static_cast<double>(report->step_ns) + 1)
            << planner->name() << " in turn " << turn << " at " << times;
        EXPECT_LE(compute + states, static_cast<double>(report->step_ns) + 1)
            << planner->name() << " in turn " << turn << " at " << times;
      }
    }
  }
  EXPECT_GT(plans, 200);
  EXPECT_GT(bounded, 20);
}

}  // namespace
}  // namespace spillway::planning
