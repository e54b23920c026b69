// SPDX-License-Identifier: Apache-2.0
// `spillway compare`: planners by budgets.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "plan/front_text.hpp"
#include "plan/planner_run.hpp"
#include "plan/planning_commands.hpp"
#include "plan/planning_inputs.hpp"
#include "plan/simulation_text.hpp"
#include "spillway/planning/bound/lower_bound.hpp"
#include "text/quantity_text.hpp"
#include "trace/trace_summary.hpp"

namespace spillway::tools {
namespace {

struct Cell {
  const planning::Planner* planner = nullptr;
  Bytes budget{};
  std::optional<planning::SimulationReport> report{};  ///< nothing: no plan fits
  std::optional<Bytes> smallest_budget{};
};

struct Column {
  Bytes budget{};  ///< as stated, with what is left free for workspace
  /// Of the plans that keep to it; nothing where no planner has one: there is nothing to bound.
  std::optional<planning::LowerBound> bound{};
  std::vector<Cell> cells{};  ///< by planner
};

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
    Cell cell{.planner = planner, .budget = column.budget};
    auto outcome = run_planner(*planner, problem, request, progress);
    if (auto* step = std::get_if<PlannedStep>(&outcome)) {
      cell.report = std::move(step->report);
    } else {
      cell.smallest_budget =
          beside(std::get<planning::Infeasible>(outcome), inputs.margin).smallest_budget;
    }
    column.cells.push_back(std::move(cell));
  }
  const bool any = std::any_of(column.cells.begin(), column.cells.end(),
                               [](const Cell& cell) { return cell.report.has_value(); });
  if (any) column.bound = planning::lower_bound(planning::StepModel(problem));
  return column;
}

std::vector<FrontPoint> points_of(const std::vector<Column>& columns) {
  std::vector<FrontPoint> points;
  for (const Column& column : columns) {
    for (const Cell& cell : column.cells) {
      if (cell.report) points.push_back({cell.planner->name(), cell.budget, cell.report->step_ns});
    }
  }
  return points;
}

bool is_on_front(const Cell& cell, const std::vector<FrontPoint>& points) {
  return cell.report &&
         is_on_front(FrontPoint{cell.planner->name(), cell.budget, cell.report->step_ns}, points);
}

// At most six budgets fit a terminal beside the names; more go below each other.
std::string table_text(const std::vector<Column>& columns, const PlanningInputs& inputs,
                       TimeNs compute_ns) {
  constexpr std::size_t kBeside = 6;
  const std::vector<FrontPoint> points = points_of(columns);
  std::string text =
      heading(inputs) + fmt::format("step          {} without limit; below, what each plan adds\n",
                                    short_time(compute_ns));
  for (std::size_t first = 0; first < columns.size(); first += kBeside) {
    const std::size_t last = std::min(columns.size(), first + kBeside);
    text += fmt::format("\n{:<20}", "device budget");
    for (std::size_t i = first; i < last; ++i) {
      text += fmt::format("{:>9} ", three_digits(columns[i].budget));
    }
    text += fmt::format("\n{:<20}", "lower bound");
    for (std::size_t i = first; i < last; ++i) {
      const auto& bound = columns[i].bound;
      text += fmt::format("{:>9} ", bound ? over_text(bound->step_ns, compute_ns) : "-");
    }
    for (std::size_t row = 0; row < columns[first].cells.size(); ++row) {
      text += fmt::format("\n{:<20}", columns[first].cells[row].planner->name());
      for (std::size_t i = first; i < last; ++i) {
        const Cell& cell = columns[i].cells[row];
        const std::string over = cell.report ? over_text(cell.report->step_ns, compute_ns) : "-";
        text += fmt::format("{:>9}{}", over, is_on_front(cell, points) ? '*' : ' ');
      }
    }
    text += "\n";
  }
  const bool gaps = std::any_of(columns.begin(), columns.end(), [](const Column& column) {
    return std::any_of(column.cells.begin(), column.cells.end(),
                       [](const Cell& cell) { return !cell.report; });
  });
  if (!points.empty()) text += "\n*: on the front below\n";
  if (gaps) text += fmt::format("{}-: no plan fits\n", points.empty() ? "\n" : "");
  return text + front_text(points, compute_ns);
}

Json compare_json(const std::vector<Column>& columns, const PlanningInputs& inputs,
                  TimeNs compute_ns) {
  const std::vector<FrontPoint> front = points_of(columns);
  Json points = Json::array();
  Json bounds = Json::array();
  for (const Column& column : columns) {
    if (column.bound) {
      Json bound = bound_json(*column.bound);
      bound["budget_bytes"] = column.budget.count;
      bounds.push_back(std::move(bound));
    }
    for (const Cell& cell : column.cells) {
      Json point{{"planner", cell.planner->name()},
                 {"budget_bytes", cell.budget.count},
                 {"feasible", cell.report.has_value()}};
      if (cell.report) {
        point["step_ns"] = cell.report->step_ns;
        point["on_front"] = is_on_front(cell, front);
      } else if (cell.smallest_budget) {
        point["smallest_budget"] = cell.smallest_budget->count;
      }
      points.push_back(std::move(point));
    }
  }
  Json json{
      {"compute_ns", compute_ns}, {"points", std::move(points)}, {"bound", std::move(bounds)}};
  add_inputs(json, inputs);
  json["budgets"] = budgets_json(inputs.budgets);
  json["budgets"].erase(std::string(to_string(Tier::kDevice)));  // a row of them, in `points`
  return json;
}

}  // namespace

Answer compare_answer(const PlanningRequest& request) {
  const PlanningInputs inputs = read_inputs(request, request.files.front());
  const auto planners = chosen_planners(request);
  const TimeNs compute_ns = compute_time(inputs.trace);
  const std::vector<Bytes> device_budgets = budgets_of(request, inputs.trace);
  ProgressLine progress(device_budgets.size() * planners.size());
  std::vector<Column> columns;
  columns.reserve(device_budgets.size());
  for (const Bytes budget : device_budgets) {
    columns.push_back(compare_at(inputs, budget, request, planners, progress));
  }
  const int status = points_of(columns).empty() ? kNoPlanFits : 0;
  if (request.json) return {json_text(compare_json(columns, inputs, compute_ns)), status};
  return {table_text(columns, inputs, compute_ns), status};
}

}  // namespace spillway::tools
