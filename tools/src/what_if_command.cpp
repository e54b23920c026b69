// SPDX-License-Identifier: Apache-2.0
// `spillway what-if`: the smallest budget for a slowdown, the largest batch (what_if_batch.hpp),
// which card fits, which of several traces fits.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "machine_lookup.hpp"
#include "planner_run.hpp"
#include "planning_commands.hpp"
#include "planning_inputs.hpp"
#include "quantity_text.hpp"
#include "simulation_text.hpp"
#include "spillway/base/error.hpp"
#include "spillway/planning/registry.hpp"
#include "trace_summary.hpp"
#include "what_if_batch.hpp"

namespace spillway::tools {
namespace {

/// One try: a problem and how long its step takes, if a plan fits.
std::optional<TimeNs> step_of(const planning::Problem& problem, const PlanningRequest& request,
                              ProgressLine& progress) {
  auto outcome = run_planner(planning::planner_named(request.planner), problem, request, progress);
  if (const auto* step = std::get_if<PlannedStep>(&outcome)) return step->report.step_ns;
  return std::nullopt;
}

double slowdown_of(TimeNs step, TimeNs compute) {
  return compute == 0 ? 0 : static_cast<double>(step) / static_cast<double>(compute) - 1;
}

/// To a 256th of the peak, by halving: the slowdown grows as the budget shrinks.
Answer smallest_budget(const PlanningInputs& inputs, const PlanningRequest& request) {
  constexpr std::uint64_t kSteps = 256;
  constexpr int kTries = std::bit_width(kSteps) - 1;
  ProgressLine progress(kTries);
  const TimeNs compute = compute_time(inputs.trace);
  const auto fits = [&](Bytes budget) {
    const auto step = step_of(inputs.problem_at(budget), request, progress);
    return step && slowdown_of(*step, compute) <= *request.slowdown;
  };
  const Bytes peak = peak_bytes(inputs.trace);
  std::uint64_t fitting = kSteps;
  for (std::uint64_t failing = 0; fitting - failing > 1;) {
    const std::uint64_t middle = failing + (fitting - failing) / 2;
    (fits({peak.count / kSteps * middle}) ? fitting : failing) = middle;
  }
  const Bytes budget = fitting == kSteps ? peak : Bytes{peak.count / kSteps * fitting};
  if (request.json) {
    return {json_text({{"slowdown", *request.slowdown},
                       {"peak", peak.count},
                       {"smallest_budget", budget.count}})};
  }
  return {fmt::format(
      "A slowdown of at most {} takes {}, {} of the peak of {}:\n--budget {}B\n",
      short_percent(*request.slowdown), short_bytes(budget),
      short_percent(static_cast<double>(budget.count) / static_cast<double>(peak.count)),
      short_bytes(peak), budget.count)};
}

struct Row {
  std::string name;
  Bytes budget{};
  Bytes peak{};
  TimeNs compute = 0;
  std::optional<TimeNs> step;
};

// Paths differ at their ends.
std::string ending(const std::string& name, std::size_t width) {
  if (name.size() <= width) return printable(name, width);
  return "..." + printable(std::string_view(name).substr(name.size() - width + 3), width - 3);
}

Answer rows_answer(const std::vector<Row>& rows, std::string_view first, std::string_view note,
                   bool json) {
  if (json) {
    Json list = Json::array();
    for (const Row& row : rows) {
      Json entry{{std::string(first), row.name},
                 {"budget_bytes", row.budget.count},
                 {"peak", row.peak.count},
                 {"feasible", row.step.has_value()}};
      if (row.step) entry["step_ns"] = *row.step;
      list.push_back(std::move(entry));
    }
    return {json_text(list)};
  }
  std::string text =
      fmt::format("{:<32}{:>11}{:>11}{:>14}{:>11}\n", first, "peak", "budget", "step", "slower by");
  for (const Row& row : rows) {
    constexpr std::size_t kNameWidth = 31;
    text += fmt::format("{:<32}{:>11}{:>11}{:>14}{:>11}\n", ending(row.name, kNameWidth),
                        short_bytes(row.peak), short_bytes(row.budget),
                        row.step ? short_time(*row.step) : "does not fit",
                        row.step ? short_percent(slowdown_of(*row.step, row.compute)) : "-");
  }
  return {fmt::format("{}{}\n", text, note)};
}

Answer try_machines(const PlanningRequest& request) {
  std::vector<Row> rows;
  const std::vector<Machine> machines = known_machines();
  ProgressLine progress(machines.size());
  for (const Machine& machine : machines) {
    PlanningRequest here = request;
    here.machine = machine.name;
    here.estimate_times = true;  // durations of another machine say nothing about this one
    const PlanningInputs inputs = read_inputs(here, request.files.front());
    const Bytes device = std::min(inputs.whole_device, capacities(machine)[Tier::kDevice]);
    rows.push_back({machine.name, device, peak_bytes(inputs.trace), compute_time(inputs.trace),
                    step_of(inputs.problem_at(device), here, progress)});
  }
  return rows_answer(rows, "machine", "Steps are estimated from the machines' figures.",
                     request.json);
}

constexpr std::size_t kMachineWidth = 70;

Answer try_traces(const PlanningRequest& request) {
  std::vector<Row> rows;
  ProgressLine progress(request.files.size());
  std::string machine;
  for (const std::string& path : request.files) {
    const PlanningInputs inputs = read_inputs(request, path);
    machine = printable(inputs.machine.name, kMachineWidth);
    rows.push_back({path, inputs.whole_device, peak_bytes(inputs.trace), compute_time(inputs.trace),
                    step_of(inputs.problem(), request, progress)});
  }
  return rows_answer(rows, "trace", "On " + machine + ".", request.json);
}

}  // namespace

Answer what_if_answer(const PlanningRequest& request) {
  if (request.batch) return largest_batch(request);
  if (request.all_machines) return try_machines(request);
  if (!request.slowdown) return try_traces(request);
  return smallest_budget(read_inputs(request, request.files.front()), request);
}

}  // namespace spillway::tools
