// SPDX-License-Identifier: Apache-2.0
#include "plan/what_if_command.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "machine/machine_lookup.hpp"
#include "plan/planner_run.hpp"
#include "spillway/planning/registry.hpp"
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

/// To a 256th of what the step takes without a plan, by halving: the slowdown grows as the budget
/// shrinks.
void search_budget(SmallestBudgetAnswer& answer, const PlanningRequest& request) {
  constexpr std::uint64_t kSteps = 256;
  constexpr int kTries = std::bit_width(kSteps);
  ProgressLine progress(kTries);
  const auto is_enough = [&](const std::optional<TimeNs>& step) {
    return step && slowdown_of(*step, answer.compute_ns) <= answer.slowdown;
  };
  const PlanningInputs& inputs = answer.inputs;
  answer.most = answer.peak + inputs.budgets.margin;
  answer.step_at_most = step_of(inputs.problem_at(answer.most), request, progress);
  if (!is_enough(answer.step_at_most)) return;
  answer.budget = answer.most;
  std::uint64_t enough = kSteps;
  for (std::uint64_t too_small = 0; enough - too_small > 1;) {
    const std::uint64_t middle = too_small + (enough - too_small) / 2;
    const Bytes budget{answer.most.count / kSteps * middle};
    if (is_enough(step_of(inputs.problem_at(budget), request, progress))) {
      enough = middle;
      answer.budget = budget;
    } else {
      too_small = middle;
    }
  }
}

FitsAnswer::Row row_of(const std::string& name, Bytes budget, const PlanningInputs& inputs,
                       std::optional<TimeNs> step) {
  return {.name = name,
          .budget = budget,
          .peak = peak_bytes(inputs.trace),
          .margin = inputs.budgets.margin,
          .workspace_known = inputs.trace.workspace_known,
          .durations = inputs.durations.are,
          .compute_ns = compute_time(inputs.trace),
          .step_ns = step};
}

}  // namespace

double slowdown_of(TimeNs step, TimeNs compute) {
  return compute == 0 ? 0 : static_cast<double>(step) / static_cast<double>(compute) - 1;
}

SmallestBudgetAnswer smallest_budget(const PlanningRequest& request) {
  SmallestBudgetAnswer answer;
  answer.inputs = read_inputs(request, request.files.front());
  answer.slowdown = *request.slowdown;
  answer.planner = request.planner;
  answer.compute_ns = compute_time(answer.inputs.trace);
  answer.peak = peak_bytes(answer.inputs.trace);
  search_budget(answer, request);
  return answer;
}

FitsAnswer try_machines(const PlanningRequest& request) {
  FitsAnswer answer{.what = "machine", .machine = {}, .rows = {}};
  const std::vector<Machine> machines = known_machines();
  ProgressLine progress(machines.size());
  for (const Machine& machine : machines) {
    PlanningRequest here = request;
    here.machine = machine.name;
    const PlanningInputs inputs = read_inputs(here, request.files.front(), &progress);
    const Bytes device =
        std::min(inputs.budgets.stated[Tier::kDevice], capacities(machine)[Tier::kDevice]);
    answer.rows.push_back(
        row_of(machine.name, device, inputs, step_of(inputs.problem_at(device), here, progress)));
  }
  return answer;
}

FitsAnswer try_traces(const PlanningRequest& request) {
  FitsAnswer answer{.what = "trace", .machine = {}, .rows = {}};
  ProgressLine progress(request.files.size());
  for (const std::string& path : request.files) {
    const PlanningInputs inputs = read_inputs(request, path, &progress);
    answer.machine = inputs.machine.name;
    answer.rows.push_back(row_of(path, inputs.budgets.stated[Tier::kDevice], inputs,
                                 step_of(inputs.problem(), request, progress)));
  }
  return answer;
}

}  // namespace spillway::tools
