// SPDX-License-Identifier: Apache-2.0
#include "plan/compare_command.hpp"

#include <algorithm>
#include <string>

#include "plan/planner_run.hpp"
#include "trace/trace_summary.hpp"

namespace spillway::tools {
namespace {

using Cell = ComparisonAnswer::Cell;
using Column = ComparisonAnswer::Column;

std::vector<Bytes> budgets_of(const PlanningRequest& request, const Trace& trace) {
  static const std::vector<std::string> shares{"90%", "75%", "60%", "50%", "40%", "30%"};
  std::vector<Bytes> budgets;
  for (const std::string& text : request.device_budgets.empty() ? shares : request.device_budgets) {
    budgets.push_back(device_budget(text, trace));
  }
  return budgets;
}

Column compare_at(const PlanningInputs& inputs, Bytes budget, const PlanningRequest& request,
                  const std::vector<const planning::Planner*>& planners, ProgressLine& progress) {
  Column column{.budget = budget};
  const planning::Problem problem = inputs.problem_at(budget);
  for (const planning::Planner* planner : planners) {
    Cell cell{.planner = planner};
    auto outcome = run_planner(*planner, problem, request, progress);
    if (const auto* step = std::get_if<PlannedStep>(&outcome)) {
      cell.step_ns = step->report.step_ns;
    } else {
      cell.smallest_budget = inputs.budgets.with_device(budget)
                                 .about_stated(std::get<planning::Infeasible>(outcome))
                                 .smallest_budget;
    }
    column.cells.push_back(cell);
  }
  const bool any = std::any_of(column.cells.begin(), column.cells.end(),
                               [](const Cell& cell) { return cell.step_ns.has_value(); });
  if (any) column.bound = planning::lower_bound(planning::StepModel(problem));
  return column;
}

FrontPoint point_of(const Column& column, const Cell& cell) {
  return {cell.planner->name(), column.budget, *cell.step_ns};
}

void find_front(ComparisonAnswer& answer) {
  for (const Column& column : answer.columns) {
    for (const Cell& cell : column.cells) {
      if (cell.step_ns) answer.points.push_back(point_of(column, cell));
    }
  }
  for (Column& column : answer.columns) {
    for (Cell& cell : column.cells) {
      cell.on_front = cell.step_ns && is_on_front(point_of(column, cell), answer.points);
    }
  }
}

}  // namespace

ComparisonAnswer compare_planners(const PlanningRequest& request) {
  ComparisonAnswer answer;
  answer.inputs = read_inputs(request, request.files.front());
  answer.compute_ns = compute_time(answer.inputs.trace);
  const auto planners = chosen_planners(request);
  const std::vector<Bytes> device_budgets = budgets_of(request, answer.inputs.trace);
  ProgressLine progress(device_budgets.size() * planners.size());
  answer.columns.reserve(device_budgets.size());
  for (const Bytes budget : device_budgets) {
    answer.columns.push_back(compare_at(answer.inputs, budget, request, planners, progress));
  }
  find_front(answer);
  return answer;
}

}  // namespace spillway::tools
