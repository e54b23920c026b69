// SPDX-License-Identifier: Apache-2.0
#include "planner/early_copies.hpp"

#include "plan_fixture.hpp"
#include "planner/demand_pager.hpp"
#include "training_steps.hpp"

namespace spillway::planning {
namespace {

class EarlyCopiesTest : public PlanFixture {};

TEST_F(EarlyCopiesTest, FitAsCopiesOnDemandDoAndMakeTheStepShorter) {
  const Machine machine = machine_with_links(4e9, 500);
  int shorter = 0;
  int cases = 0;
  for (const std::uint64_t seed : {1U, 2U}) {
    const Trace trace = TrainingStep({.seed = seed, .layers = 8}).build();
    for (const double times : {1.1, 2.5}) {
      const Problem problem{trace, machine, budgets(trace, machine, times)};
      const StepModel model(problem);
      const auto paged = page_on_demand(model, VictimOrder::kFurthestNextUse);
      ASSERT_TRUE(paged);
      const auto late = check(problem, write_plan(problem, model, *paged, "on demand"));
      const Draft draft = with_early_copies(model, *paged, 3);
      const auto early = check(problem, write_plan(problem, model, draft, "early"));
      ++cases;
      shorter += early.report.step_ns < late.report.step_ns ? 1 : 0;
      EXPECT_EQ(early.report.evicted, late.report.evicted) << "the same storages leave";
    }
  }
  EXPECT_EQ(shorter, cases);
}

TEST_F(EarlyCopiesTest, ReachFurtherAheadWhereAskedTo) {
  const Trace trace = TrainingStep({.seed = 2, .layers = 8}).build();
  const Machine machine = machine_with_links(4e9, 500);
  const Problem problem{trace, machine, budgets(trace, machine, 3.0)};
  const StepModel model(problem);
  const auto paged = page_on_demand(model, VictimOrder::kFurthestNextUse);
  ASSERT_TRUE(paged);
  const auto ahead = [&](double reach) {
    const Draft draft = with_early_copies(model, *paged, reach);
    std::uint64_t ops = 0;
    for (Row row = 0; row < model.table.touches(); ++row) {
      const GapChoice& choice = draft.gap[row];
      if (choice.in_at == kNoRow) continue;
      const GapEnd end = end_of_gap(model.table, row);
      ops += model.table.op_of(end.touch) + (end.wraps ? model.ops() : 0) - choice.in_at;
    }
    return ops;
  };
  EXPECT_GT(ahead(1), 0U);
  EXPECT_GT(ahead(10), ahead(1));
}

}  // namespace
}  // namespace spillway::planning
