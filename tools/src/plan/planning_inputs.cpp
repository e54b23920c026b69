// SPDX-License-Identifier: Apache-2.0
#include "plan/planning_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include "machine/machine_lookup.hpp"
#include "spillway/base/error.hpp"
#include "spillway/planning/cost/roofline.hpp"
#include "spillway/planning/kernel_workspace.hpp"
#include "trace/trace_reading.hpp"

namespace spillway::tools {

Bytes device_budget(const std::string& text, const Trace& trace) {
  if (text.empty() || text.back() != '%') return parse_bytes(text, "--budget");
  double percent = 0;
  const char* const last = text.data() + text.size() - 1;
  const auto [end, error] = std::from_chars(text.data(), last, percent);
  constexpr double kPercent = 100;
  constexpr double kMost = 100 * kPercent;  // more room than any step makes use of
  // Not <= 0: what is no number compares false.
  if (error != std::errc{} || end != last || !(percent > 0 && percent <= kMost)) {
    throw UserError(fmt::format("--budget \"{}\" is not a share such as 60%.", text));
  }
  return {static_cast<std::uint64_t>(static_cast<double>(peak_bytes(trace).count) * percent /
                                     kPercent)};
}

Budgets lower_budgets(const PlanningRequest& request, const Machine& machine) {
  Budgets budgets = capacities(machine);
  const bool has_host = machine.link(LinkKind::kDeviceToHost).has_value();
  if (!has_host) budgets[Tier::kHost] = {};
  if (has_host || !machine.link(LinkKind::kHostToDisk)) budgets[Tier::kDisk] = {};
  if (request.host_budget) budgets[Tier::kHost] = parse_bytes(*request.host_budget, "--host");
  if (request.disk_budget) budgets[Tier::kDisk] = parse_bytes(*request.disk_budget, "--disk");
  return budgets;
}

namespace {

/// All but the margin. `plan`: one for the machine, or null. `known`, by op: whether its workspace
/// is.
PlanningInputs whole_inputs(const PlanningRequest& request, const std::string& path,
                            const Plan* plan, ProgressLine* shown,
                            std::vector<std::uint8_t>& known) {
  PlanningInputs inputs;
  inputs.machine_named = request.machine.has_value();
  inputs.machine = find_machine(request.machine.value_or(kDefaultMachine));
  inputs.trace = read_trace_shown(path, shown);
  inputs.durations = step_durations(inputs.trace, inputs.machine, request.durations, plan);
  if (inputs.durations.are == Durations::kEstimated) inputs.trace.timed = false;
  inputs.trace = planning::timed_on(std::move(inputs.trace), inputs.machine);
  known = planning::lend_workspace(inputs.trace, inputs.machine);
  inputs.lent = inputs.trace.workspace_known
                    ? 0
                    : static_cast<std::size_t>(std::ranges::count(known, std::uint8_t{1}));
  Budgets& stated = inputs.budgets.stated;
  stated = lower_budgets(request, inputs.machine);
  if (!request.device_budgets.empty()) {
    stated[Tier::kDevice] = device_budget(request.device_budgets.front(), inputs.trace);
  }
  return inputs;
}

}  // namespace

PlanningInputs read_inputs(const PlanningRequest& request, const std::string& path,
                           ProgressLine* shown) {
  std::vector<std::uint8_t> known;
  PlanningInputs inputs = whole_inputs(request, path, nullptr, shown, known);
  // Without a plan to make nothing is left free: the step is shown as it is.
  if (request.command != PlanningRequest::Command::kSimulate) {
    inputs.budgets.margin =
        planning::workspace_margin(inputs.trace, request.workspace_share, known);
  }
  return inputs;
}

PlanningInputs read_planned_inputs(const PlanningRequest& request, const Plan& plan,
                                   const std::string& path) {
  PlanningRequest as_planned = request;
  const bool its_machine = !request.machine || kept_name(*request.machine) == plan.machine;
  if (its_machine && !plan.machine.empty()) as_planned.machine = plan.machine;
  std::vector<std::uint8_t> known;
  PlanningInputs inputs =
      whole_inputs(as_planned, path, its_machine ? &plan : nullptr, nullptr, known);
  inputs.of_plan = true;
  inputs.budgets.margin = plan.workspace_margin;
  Budgets& stated = inputs.budgets.stated;
  if (request.device_budgets.empty()) {
    stated[Tier::kDevice] = plan.budgets[Tier::kDevice] + plan.workspace_margin;
  }
  if (!request.host_budget) stated[Tier::kHost] = plan.budgets[Tier::kHost];
  if (!request.disk_budget) stated[Tier::kDisk] = plan.budgets[Tier::kDisk];
  return inputs;
}

}  // namespace spillway::tools
