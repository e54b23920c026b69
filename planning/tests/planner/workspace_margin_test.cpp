// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/workspace_margin.hpp"

#include "plan_fixture.hpp"
#include "spillway/planning/registry.hpp"
#include "spillway/testing/small_steps.hpp"
#include "training_steps.hpp"

namespace spillway::planning {
namespace {

class WorkspaceMarginTest : public PlanFixture {};

TEST_F(WorkspaceMarginTest, IsAShareOfTheLargestWorkingSet) {
  testing::StepBuilder step;
  const StorageId a = step.temporary(1'000, "a");
  const StorageId b = step.temporary(500, "b");
  step.op(10, {.creates = {a}});
  step.op(10, {.creates = {b}, .reads = {a}, .frees = {a, b}});
  Trace trace = step.build();
  EXPECT_EQ(workspace_margin(trace).count, 0U) << "the trace knows its workspace";
  trace.workspace_known = false;
  EXPECT_EQ(workspace_margin(trace).count, 900U);
  EXPECT_EQ(workspace_margin(trace, 0.1).count, 150U);
  EXPECT_EQ(workspace_margin(trace, 0).count, 0U);
}

TEST_F(WorkspaceMarginTest, IsTakenFromTheDeviceAlone) {
  Budgets budgets;
  budgets[Tier::kDevice] = Bytes{1'000};
  budgets[Tier::kHost] = Bytes{2'000};
  EXPECT_EQ(leaving_free(budgets, Bytes{300})[Tier::kDevice].count, 700U);
  EXPECT_EQ(leaving_free(budgets, Bytes{300})[Tier::kHost].count, 2'000U);
  EXPECT_EQ(leaving_free(budgets, Bytes{1'300})[Tier::kDevice].count, 0U);
}

TEST_F(WorkspaceMarginTest, AnAnswerIsAboutTheStatedBudgets) {
  StatedBudgets budgets{.stated = {{Bytes{1'000}, Bytes{2'000}, Bytes{0}}}, .margin = Bytes{300}};
  EXPECT_EQ(budgets.for_plans()[Tier::kDevice].count, 700U);
  EXPECT_EQ(budgets.with_device(Bytes{500}).for_plans()[Tier::kDevice].count, 200U);
  EXPECT_EQ(budgets.with_device(Bytes{500}).for_plans()[Tier::kHost].count, 2'000U);
  const Infeasible answer{
      .op = OpIndex{3},
      .short_by = {Bytes{50}, Bytes{7}, Bytes{0}},
      .smallest_budget = Bytes{750},
      .remedies = {"Raise the device budget to " + to_string(Bytes{750}) + ".", "Split op 3."}};
  const Infeasible stated = budgets.about_stated(answer);
  EXPECT_EQ(stated.op, OpIndex{3});
  EXPECT_EQ(stated.short_by, (std::array{Bytes{50}, Bytes{7}, Bytes{0}})) << "1,050 less 1,000";
  EXPECT_EQ(stated.smallest_budget, Bytes{1'050});
  EXPECT_EQ(stated.remedies[0], "Raise the device budget to " + to_string(Bytes{1'050}) + ".");
  EXPECT_EQ(stated.remedies[1], "Split op 3.");
  // A device smaller than the margin leaves nothing for plans: all of the need is short.
  const Infeasible of_nothing{.short_by = {Bytes{750}, Bytes{0}, Bytes{0}}};
  EXPECT_EQ(budgets.with_device(Bytes{100}).about_stated(of_nothing).short_by[0], Bytes{950});
  budgets.margin = Bytes{0};
  EXPECT_EQ(budgets.about_stated(answer), answer);
}

// The purpose of the margin: a plan made without knowing the workspace runs with it.
TEST_F(WorkspaceMarginTest, PlansOfEveryPlannerRunWithWorkspaceUpToTheMargin) {
  Trace trace = TrainingStep({.seed = 4, .layers = 6}).build();
  std::fill(trace.ops.workspace.begin(), trace.ops.workspace.end(), Bytes{});
  trace.workspace_known = false;
  const Machine machine = machine_with_links(4e9);
  const Bytes margin = workspace_margin(trace);
  ASSERT_GT(margin, Bytes{});
  Trace with_kernels = trace;
  std::fill(with_kernels.ops.workspace.begin(), with_kernels.ops.workspace.end(), margin);
  with_kernels.workspace_known = true;
  int plans = 0;
  int overfull = 0;
  for (const Planner* planner : planners()) {
    for (const double times : {2.2, 3.5}) {
      const Problem whole{trace, machine, budgets(trace, machine, times)};
      const auto plan = make(*planner, whole.with(leaving_free(whole.budgets, margin)));
      if (plan) {
        ++plans;
        const auto flaw = validate(plan->plan, with_kernels, whole.budgets);
        EXPECT_FALSE(flaw) << planner->name() << ": " << (flaw ? flaw->text : "");
      }
      const auto careless = make(*planner, whole);
      if (careless && validate(careless->plan, with_kernels, whole.budgets)) ++overfull;
    }
  }
  EXPECT_GE(plans, 8);
  EXPECT_GE(overfull, 8) << "else the margin would be for nothing";
}

}  // namespace
}  // namespace spillway::planning
