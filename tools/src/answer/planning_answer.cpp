// SPDX-License-Identifier: Apache-2.0
#include "answer/planning_answer.hpp"

#include <algorithm>
#include <utility>

namespace spillway::tools {
namespace {

template <typename... Kinds>
PlanningAnswer widened(std::variant<Kinds...> answer) {
  return std::visit([](auto& one) { return PlanningAnswer(std::move(one)); }, answer);
}

PlanningAnswer what_if(const PlanningRequest& request) {
  if (request.batch) return largest_batch(request);
  if (request.all_machines) return try_machines(request);
  if (!request.slowdown) return try_traces(request);
  return smallest_budget(request);
}

bool fits(const PlanAnswer& /*answer*/) { return true; }
bool fits(const NoPlanAnswer& /*answer*/) { return false; }
bool fits(const SimulationAnswer& /*answer*/) { return true; }
bool fits(const FailureAnswer& /*answer*/) { return false; }
bool fits(const ComparisonAnswer& answer) { return !answer.points.empty(); }
bool fits(const ExplanationAnswer& /*answer*/) { return true; }
bool fits(const SmallestBudgetAnswer& answer) { return answer.budget.has_value(); }
bool fits(const FitsAnswer& answer) {
  return std::any_of(answer.rows.begin(), answer.rows.end(),
                     [](const FitsAnswer::Row& row) { return row.step_ns.has_value(); });
}
bool fits(const LargestBatchAnswer& answer) { return answer.fitting.has_value(); }

}  // namespace

PlanningAnswer planning_answer(const PlanningRequest& request) {
  switch (request.command) {
    case PlanningRequest::Command::kPlan:
      return widened(plan_step(request));
    case PlanningRequest::Command::kSimulate:
      return widened(simulate_step(request));
    case PlanningRequest::Command::kCompare:
      return compare_planners(request);
    case PlanningRequest::Command::kExplain:
      return explain_plan(request);
    default:
      return what_if(request);
  }
}

int status_of(const PlanningAnswer& answer) {
  return std::visit([](const auto& one) { return fits(one) ? 0 : kNoPlanFits; }, answer);
}

}  // namespace spillway::tools
