// SPDX-License-Identifier: Apache-2.0
// `spillway compare`: planners by budgets.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "planner_run.hpp"
#include "planning_commands.hpp"
#include "planning_inputs.hpp"
#include "quantity_text.hpp"
#include "simulation_text.hpp"
#include "spillway/planning/bound/lower_bound.hpp"
#include "trace_summary.hpp"

namespace spillway::tools {
namespace {

struct Cell {
  const planning::Planner* planner = nullptr;
  Bytes budget{};
  std::optional<planning::SimulationReport> report{};  ///< nothing: no plan fits
  std::optional<Bytes> smallest_budget{};
};

struct Column {
  Bytes budget{};
  TimeNs bound_ns = 0;
  std::vector<Cell> cells{};  ///< by planner
};

std::vector<Bytes> budgets_of(const PlanningRequest& request, const Trace& trace) {
  static const std::vector<std::string> kShares{"90%", "75%", "60%", "50%", "40%", "30%"};
  std::vector<Bytes> budgets;
  for (const std::string& text :
       request.device_budgets.empty() ? kShares : request.device_budgets) {
    budgets.push_back(device_budget(text, trace));
  }
  return budgets;
}

Column compare_at(const planning::Problem& problem, const PlanningRequest& request,
                  const std::vector<const planning::Planner*>& planners, ProgressLine& progress) {
  Column column{.budget = problem.budgets[Tier::kDevice]};
  column.bound_ns = planning::lower_bound(planning::StepModel(problem)).step_ns;
  for (const planning::Planner* planner : planners) {
    Cell cell{.planner = planner, .budget = column.budget};
    auto outcome = run_planner(*planner, problem, request, progress);
    if (auto* step = std::get_if<PlannedStep>(&outcome)) {
      cell.report = std::move(step->report);
    } else {
      cell.smallest_budget = std::get<planning::Infeasible>(outcome).smallest_budget;
    }
    column.cells.push_back(std::move(cell));
  }
  return column;
}

std::string over_text(TimeNs step, TimeNs least) {
  if (least == 0) return "-";
  constexpr double kPercent = 100;
  const double over = static_cast<double>(step - least) / static_cast<double>(least) * kPercent;
  constexpr double kDigits = 10;
  return over < kDigits ? fmt::format("{:.1f} %", over) : fmt::format("{:.0f} %", over);
}

// Budgets that differ by little must not look the same, hence three digits.
std::string budget_cell(Bytes budget) {
  const bool small = budget < kGiB;
  const double value =
      static_cast<double>(budget.count) / static_cast<double>(small ? kMiB.count : kGiB.count);
  const int digits = value < 10 ? 2 : value < 100 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, small ? "MiB" : "GiB");
}

// At most six budgets fit a terminal beside the names; more go below each other.
std::string table_text(const std::vector<Column>& columns, const PlanningInputs& inputs,
                       TimeNs compute_ns) {
  constexpr std::size_t kBeside = 6;
  std::string text =
      heading(inputs) + fmt::format("step          {} without limit; below, what each plan adds\n",
                                    short_time(compute_ns));
  for (std::size_t first = 0; first < columns.size(); first += kBeside) {
    const std::size_t last = std::min(columns.size(), first + kBeside);
    text += fmt::format("\n{:<20}", "device budget");
    for (std::size_t i = first; i < last; ++i) {
      text += fmt::format("{:>10}", budget_cell(columns[i].budget));
    }
    text += fmt::format("\n{:<20}", "lower bound");
    for (std::size_t i = first; i < last; ++i) {
      text += fmt::format("{:>10}", over_text(columns[i].bound_ns, compute_ns));
    }
    for (std::size_t row = 0; row < columns[first].cells.size(); ++row) {
      text += fmt::format("\n{:<20}", columns[first].cells[row].planner->name());
      for (std::size_t i = first; i < last; ++i) {
        const auto& report = columns[i].cells[row].report;
        text += fmt::format("{:>10}", report ? over_text(report->step_ns, compute_ns) : "-");
      }
    }
    text += "\n";
  }
  const bool gaps = std::any_of(columns.begin(), columns.end(), [](const Column& column) {
    return std::any_of(column.cells.begin(), column.cells.end(),
                       [](const Cell& cell) { return !cell.report; });
  });
  return gaps ? text + "\n-: no plan fits\n" : text;
}

/// No other point has both a smaller budget and a shorter step.
bool is_on_front(const Cell& cell, const std::vector<Column>& columns) {
  for (const Column& column : columns) {
    for (const Cell& other : column.cells) {
      if (!other.report || other.budget > cell.budget) continue;
      const bool shorter = other.report->step_ns < cell.report->step_ns;
      const bool as_long_for_less =
          other.report->step_ns == cell.report->step_ns && other.budget < cell.budget;
      if (shorter || as_long_for_less) return false;
    }
  }
  return true;
}

Json compare_json(const std::vector<Column>& columns, TimeNs compute_ns) {
  Json points = Json::array();
  Json bounds = Json::array();
  for (const Column& column : columns) {
    bounds.push_back({{"budget_bytes", column.budget.count}, {"step_ns", column.bound_ns}});
    for (const Cell& cell : column.cells) {
      Json point{{"planner", cell.planner->name()},
                 {"budget_bytes", cell.budget.count},
                 {"feasible", cell.report.has_value()}};
      if (cell.report) {
        point["step_ns"] = cell.report->step_ns;
        point["on_front"] = is_on_front(cell, columns);
      } else if (cell.smallest_budget) {
        point["smallest_budget"] = cell.smallest_budget->count;
      }
      points.push_back(std::move(point));
    }
  }
  return Json{
      {"compute_ns", compute_ns}, {"points", std::move(points)}, {"bound", std::move(bounds)}};
}

}  // namespace

Answer compare_answer(const PlanningRequest& request) {
  const PlanningInputs inputs = read_inputs(request, request.files.front());
  const auto planners = chosen_planners(request);
  const TimeNs compute_ns = compute_time(inputs.trace);
  const std::vector<Bytes> device_budgets = budgets_of(request, inputs.trace);
  ProgressLine progress(device_budgets.size() * planners.size());
  std::vector<Column> columns;
  for (const Bytes budget : device_budgets) {
    Budgets budgets = inputs.budgets;
    budgets[Tier::kDevice] = budget;
    columns.push_back(compare_at(inputs.problem().with(budgets), request, planners, progress));
  }
  if (request.json) return {json_text(compare_json(columns, compute_ns))};
  return {table_text(columns, inputs, compute_ns)};
}

}  // namespace spillway::tools
