// SPDX-License-Identifier: Apache-2.0
// `spillway what-if`: the smallest budget for a slowdown, the largest batch (what_if_batch.hpp),
// which card fits, which of several traces fits.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "machine/machine_lookup.hpp"
#include "plan/planner_run.hpp"
#include "plan/planning_commands.hpp"
#include "plan/planning_inputs.hpp"
#include "plan/simulation_text.hpp"
#include "plan/what_if_batch.hpp"
#include "spillway/base/error.hpp"
#include "spillway/planning/registry.hpp"
#include "text/quantity_text.hpp"
#include "trace/trace_summary.hpp"

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

/// The result of a search for a budget.
struct Search {
  Bytes most{};  ///< where all of the step fits, with what is left free
  std::optional<TimeNs> step_at_most;
  std::optional<Bytes> budget;  ///< the smallest that was tried and is enough
};

/// To a 256th of what the step takes without a plan, by halving: the slowdown grows as the budget
/// shrinks.
Search search_budget(const PlanningInputs& inputs, const PlanningRequest& request) {
  constexpr std::uint64_t kSteps = 256;
  constexpr int kTries = std::bit_width(kSteps);
  ProgressLine progress(kTries);
  const TimeNs compute = compute_time(inputs.trace);
  const auto is_enough = [&](const std::optional<TimeNs>& step) {
    return step && slowdown_of(*step, compute) <= *request.slowdown;
  };
  Search found;
  found.most = peak_bytes(inputs.trace) + inputs.margin;
  found.step_at_most = step_of(inputs.problem_at(found.most), request, progress);
  if (!is_enough(found.step_at_most)) return found;
  found.budget = found.most;
  std::uint64_t enough = kSteps;
  for (std::uint64_t too_small = 0; enough - too_small > 1;) {
    const std::uint64_t middle = too_small + (enough - too_small) / 2;
    const Bytes budget{found.most.count / kSteps * middle};
    if (is_enough(step_of(inputs.problem_at(budget), request, progress))) {
      enough = middle;
      found.budget = budget;
    } else {
      too_small = middle;
    }
  }
  return found;
}

std::string smallest_budget_text(const Search& found, const PlanningInputs& inputs,
                                 const PlanningRequest& request) {
  const Bytes peak = peak_bytes(inputs.trace);
  std::string text = heading(inputs);
  if (!found.budget) {
    const std::string there =
        found.step_at_most
            ? fmt::format("is slower by {}", short_percent(slowdown_of(*found.step_at_most,
                                                                       compute_time(inputs.trace))))
            : std::string("does not fit");
    return text + fmt::format(
                      "No budget gives a slowdown of at most {} with {}:\n"
                      "at {}, with which all of the step fits, its plan {}.\n",
                      short_percent(*request.slowdown), request.planner, short_bytes(found.most),
                      there);
  }
  text += fmt::format("A slowdown of at most {} takes {}", short_percent(*request.slowdown),
                      short_bytes(*found.budget));
  if (peak > Bytes{0}) {
    text += fmt::format(
        ", {} of the peak of {}",
        short_percent(static_cast<double>(found.budget->count) / static_cast<double>(peak.count)),
        short_bytes(peak));
  }
  if (*found.budget > inputs.whole_device) {
    constexpr std::size_t kNameWidth = 40;
    text += fmt::format(",\nmore than the {} of {}", short_bytes(inputs.whole_device),
                        printable(inputs.machine.name, kNameWidth));
  }
  return text + fmt::format(":\n--budget {}B\n", found.budget->count);
}

Answer smallest_budget(const PlanningInputs& inputs, const PlanningRequest& request) {
  const Search found = search_budget(inputs, request);
  const int status = found.budget ? 0 : kNoPlanFits;
  if (!request.json) return {smallest_budget_text(found, inputs, request), status};
  Json json{{"slowdown", *request.slowdown},
            {"peak", peak_bytes(inputs.trace).count},
            {"workspace_known", inputs.trace.workspace_known},
            {"smallest_budget", nullptr}};
  add_inputs(json, inputs);
  if (found.budget) {
    json["smallest_budget"] = found.budget->count;
    json["machine_has_it"] = *found.budget <= inputs.whole_device;
  }
  return {json_text(json), status};
}

struct Row {
  std::string name;
  Bytes budget{};
  Bytes peak{};
  Bytes margin{};  ///< of the budget, left free for workspace
  bool workspace_known = true;
  Durations durations = Durations::kRecorded;
  TimeNs compute = 0;
  std::optional<TimeNs> step;
};

// Paths differ at their ends.
std::string ending(const std::string& name, std::size_t width) {
  if (name.size() <= width) return printable(name, width);
  return "..." + printable(std::string_view(name).substr(name.size() - width + 3), width - 3);
}

/// Rows differ in where their durations are from.
bool is_mixed(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row& row) { return row.durations != rows.front().durations; });
}

/// A line that says where durations are from.
std::string durations_note(const std::vector<Row>& rows) {
  constexpr std::string_view kEstimated = "estimated from the machine's figures";
  if (is_mixed(rows)) return fmt::format("*: durations as recorded, else {}.\n", kEstimated);
  return rows.front().durations == Durations::kEstimated
             ? fmt::format("Durations are {}.\n", kEstimated)
             : "Durations are as recorded; see --estimate-times.\n";
}

/// Lines that say what the figures leave out; none where nothing is.
std::string workspace_note(const std::vector<Row>& rows) {
  const bool all_known =
      std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.workspace_known; });
  if (all_known) return "";
  const auto by_margin = [](const Row& a, const Row& b) { return a.margin < b.margin; };
  const auto [least, most] = std::minmax_element(rows.begin(), rows.end(), by_margin);
  const std::string margin =
      least->margin == most->margin
          ? to_string(most->margin)
          : fmt::format("{} to {}", to_string(least->margin), to_string(most->margin));
  return fmt::format(
      "Recorded without kernels: peaks are without workspace. Of each budget\n"
      "{} are left free for workspace; see --workspace-margin.\n",
      margin);
}

Answer rows_answer(const std::vector<Row>& rows, std::string_view first, std::string_view note,
                   bool json) {
  const bool any_fits =
      std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.step.has_value(); });
  const int status = any_fits ? 0 : kNoPlanFits;
  if (json) {
    Json list = Json::array();
    for (const Row& row : rows) {
      Json entry{{std::string(first), row.name},
                 {"budget_bytes", row.budget.count},
                 {"peak", row.peak.count},
                 {"workspace_margin", row.margin.count},
                 {"durations", to_string(row.durations)},
                 {"feasible", row.step.has_value()}};
      if (row.step) entry["step_ns"] = *row.step;
      list.push_back(std::move(entry));
    }
    return {json_text(list), status};
  }
  std::string text =
      fmt::format("{:<32}{:>11}{:>11}{:>14}{:>11}\n", first, "peak", "budget", "step", "slower by");
  const bool mixed = is_mixed(rows);
  for (const Row& row : rows) {
    constexpr std::size_t kNameWidth = 31;
    const bool marked = mixed && row.step && row.durations == Durations::kRecorded;
    text += fmt::format("{:<32}{:>11}{:>11}{:>14}{:>11}\n", ending(row.name, kNameWidth),
                        short_bytes(row.peak), short_bytes(row.budget),
                        row.step ? short_time(*row.step) + (marked ? "*" : "") : "does not fit",
                        row.step ? short_percent(slowdown_of(*row.step, row.compute)) : "-");
  }
  return {text + std::string(note) + durations_note(rows) + workspace_note(rows), status};
}

Row row_of(const std::string& name, Bytes budget, const PlanningInputs& inputs,
           std::optional<TimeNs> step) {
  return {.name = name,
          .budget = budget,
          .peak = peak_bytes(inputs.trace),
          .margin = inputs.margin,
          .workspace_known = inputs.trace.workspace_known,
          .durations = inputs.durations.are,
          .compute = compute_time(inputs.trace),
          .step = step};
}

Answer try_machines(const PlanningRequest& request) {
  std::vector<Row> rows;
  const std::vector<Machine> machines = known_machines();
  ProgressLine progress(machines.size());
  for (const Machine& machine : machines) {
    PlanningRequest here = request;
    here.machine = machine.name;
    const PlanningInputs inputs = read_inputs(here, request.files.front(), &progress);
    const Bytes device = std::min(inputs.whole_device, capacities(machine)[Tier::kDevice]);
    rows.push_back(
        row_of(machine.name, device, inputs, step_of(inputs.problem_at(device), here, progress)));
  }
  return rows_answer(rows, "machine", "", request.json);
}

constexpr std::size_t kMachineWidth = 70;

Answer try_traces(const PlanningRequest& request) {
  std::vector<Row> rows;
  ProgressLine progress(request.files.size());
  std::string machine;
  for (const std::string& path : request.files) {
    const PlanningInputs inputs = read_inputs(request, path, &progress);
    machine = printable(inputs.machine.name, kMachineWidth);
    rows.push_back(
        row_of(path, inputs.whole_device, inputs, step_of(inputs.problem(), request, progress)));
  }
  return rows_answer(rows, "trace", "On " + machine + ".\n", request.json);
}

}  // namespace

Answer what_if_answer(const PlanningRequest& request) {
  if (request.batch) return largest_batch(request);
  if (request.all_machines) return try_machines(request);
  if (!request.slowdown) return try_traces(request);
  return smallest_budget(read_inputs(request, request.files.front()), request);
}

}  // namespace spillway::tools
