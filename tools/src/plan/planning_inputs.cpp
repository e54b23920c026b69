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
#include "text/output_text.hpp"
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
  inputs.budgets = lower_budgets(request, inputs.machine);
  if (!request.device_budgets.empty()) {
    inputs.budgets[Tier::kDevice] = device_budget(request.device_budgets.front(), inputs.trace);
  }
  inputs.whole_device = inputs.budgets[Tier::kDevice];
  return inputs;
}

}  // namespace

PlanningInputs read_inputs(const PlanningRequest& request, const std::string& path,
                           ProgressLine* shown) {
  std::vector<std::uint8_t> known;
  PlanningInputs inputs = whole_inputs(request, path, nullptr, shown, known);
  // Without a plan to make nothing is left free: the step is shown as it is.
  if (request.command != PlanningRequest::Command::kSimulate) {
    inputs.margin = planning::workspace_margin(inputs.trace, request.workspace_share, known);
    inputs.budgets = planning::leaving_free(inputs.budgets, inputs.margin);
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
  inputs.margin = plan.workspace_margin;
  if (request.device_budgets.empty()) {
    inputs.whole_device = plan.budgets[Tier::kDevice] + plan.workspace_margin;
    inputs.budgets[Tier::kDevice] = inputs.whole_device;
  }
  if (!request.host_budget) inputs.budgets[Tier::kHost] = plan.budgets[Tier::kHost];
  if (!request.disk_budget) inputs.budgets[Tier::kDisk] = plan.budgets[Tier::kDisk];
  inputs.budgets = planning::leaving_free(inputs.budgets, inputs.margin);
  return inputs;
}

planning::Problem PlanningInputs::problem_at(Bytes device) const {
  Budgets whole = budgets;
  whole[Tier::kDevice] = device;
  return problem().with(planning::leaving_free(whole, margin));
}

planning::Infeasible beside(planning::Infeasible answer, Bytes margin) {
  if (!answer.smallest_budget || margin == Bytes{0}) return answer;
  const std::string without = to_string(*answer.smallest_budget);
  *answer.smallest_budget += margin;
  for (std::string& remedy : answer.remedies) {
    if (const auto at = remedy.find(without); at != std::string::npos) {
      remedy.replace(at, without.size(), to_string(*answer.smallest_budget));
    }
  }
  return answer;
}

planning::Infeasible as_stated(const planning::Infeasible& answer, const PlanningInputs& inputs) {
  planning::Infeasible stated = beside(answer, inputs.margin);
  Bytes& missing = stated.short_by[index_of(Tier::kDevice)];
  if (missing == Bytes{0}) return stated;
  const Bytes need = inputs.budgets[Tier::kDevice] + missing + inputs.margin;
  missing = saturating_sub(need, inputs.whole_device);
  return stated;
}

Budgets PlanningInputs::stated_budgets() const {
  Budgets stated = budgets;
  stated[Tier::kDevice] = whole_device;
  return stated;
}

std::string machine_line(const std::string& name, bool named) {
  constexpr std::size_t kWidth = 66;
  return fmt::format("machine       {}{}\n", printable(name, named ? kWidth : kWidth / 2),
                     named ? "" : ", as none was named: see --machine");
}

std::string heading(const PlanningInputs& inputs) {
  std::string text = machine_line(inputs.machine.name, inputs.machine_named);
  text += durations_lines(inputs.durations, inputs.trace, inputs.machine);
  if (!inputs.trace.workspace_known) {
    text += inputs.lent == 0
                ? "note          recorded without kernels: floor and peak are without workspace\n"
                : fmt::format("note          workspace of {} of {} ops is the machine's\n",
                              inputs.lent, inputs.trace.ops.size());
  }
  const Bytes locked = inputs.machine.page_locked_capacity.value;
  const Bytes host = inputs.budgets[Tier::kHost];
  if (host > locked && inputs.machine.link(LinkKind::kDeviceToHost)) {
    text +=
        fmt::format("note          only {} of the host's {} can be page-locked: slower copies\n",
                    to_string(locked), to_string(host));
  }
  return text + margin_line(inputs);
}

std::string margin_line(const PlanningInputs& inputs) {
  if (inputs.margin == Bytes{0}) return "";
  return fmt::format("left free     {} for workspace{}\n", to_string(inputs.margin),
                     inputs.of_plan ? ", as in the plan" : "; see --workspace-margin");
}

void add_inputs(Json& json, const PlanningInputs& inputs) {
  json["machine"] = inputs.machine.name;
  json["recorded_on"] = inputs.trace.machine;
  json["recorded_elsewhere"] =
      !inputs.trace.machine.empty() && !recorded_on(inputs.trace, inputs.machine);
  json["durations"] = to_string(inputs.durations.are);
  json["workspace_margin"] = inputs.margin.count;
}

}  // namespace spillway::tools
