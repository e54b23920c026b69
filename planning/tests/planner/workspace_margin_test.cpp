// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/workspace_margin.hpp"

#include "plan_fixture.hpp"
#include "spillway/planning/registry.hpp"
#include "spillway/testing/small_steps.hpp"
#include "training_steps.hpp"

namespace spillway::planning {
namespace {

class WorkspaceMarginTest : public PlanFixture {};

TEST_F(WorkspaceMarginTest, is_a_share_of_the_largest_working_set) {
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

TEST_F(WorkspaceMarginTest, is_taken_from_the_device_alone) {
  Budgets budgets;
  budgets[Tier::kDevice] = Bytes{1'000};
  budgets[Tier::kHost] = Bytes{2'000};
  EXPECT_EQ(leaving_free(budgets, Bytes{300})[Tier::kDevice].count, 700U);
  EXPECT_EQ(leaving_free(budgets, Bytes{300})[Tier::kHost].count, 2'000U);
  EXPECT_EQ(leaving_free(budgets, Bytes{1'300})[Tier::kDevice].count, 0U);
}

// The purpose of the margin: a plan made without knowing the workspace runs with it.
TEST_F(WorkspaceMarginTest, plans_of_every_planner_run_with_workspace_up_to_the_margin) {
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
