// SPDX-License-Identifier: Apache-2.0
#include "planning_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include "machine_lookup.hpp"
#include "output_text.hpp"
#include "spillway/base/error.hpp"
#include "spillway/planning/cost/roofline.hpp"
#include "spillway/planning/kernel_workspace.hpp"
#include "trace_reading.hpp"

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

PlanningInputs read_inputs(const PlanningRequest& request, const std::string& path,
                           ProgressLine* shown) {
  PlanningInputs inputs;
  inputs.machine = find_machine(request.machine.value_or(kDefaultMachine));
  inputs.trace = read_trace_shown(path, shown);
  if (request.estimate_times) {
    inputs.trace.timed = false;
    std::fill(inputs.trace.ops.duration_ns.begin(), inputs.trace.ops.duration_ns.end(), 0);
  }
  inputs.estimated = !inputs.trace.timed;
  inputs.trace = planning::timed_on(std::move(inputs.trace), inputs.machine);
  const std::vector<std::uint8_t> known = planning::lend_workspace(inputs.trace, inputs.machine);
  inputs.lent = inputs.trace.scratch_known
                    ? 0
                    : static_cast<std::size_t>(std::ranges::count(known, std::uint8_t{1}));
  inputs.budgets = lower_budgets(request, inputs.machine);
  if (!request.device_budgets.empty()) {
    inputs.budgets[Tier::kDevice] = device_budget(request.device_budgets.front(), inputs.trace);
  }
  // Plans that exist keep to the budgets they were made for.
  using Command = PlanningRequest::Command;
  if (request.command != Command::kSimulate && request.command != Command::kExplain) {
    inputs.margin = planning::workspace_margin(inputs.trace, request.workspace_share, known);
    inputs.whole_device = inputs.budgets[Tier::kDevice];
    inputs.budgets = planning::leaving_free(inputs.budgets, inputs.margin);
  }
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

std::string heading(const PlanningInputs& inputs) {
  constexpr std::size_t kWidth = 66;
  constexpr std::size_t kRecordedWidth = 30;
  std::string text = fmt::format("machine       {}\n", printable(inputs.machine.name, kWidth));
  // Recorded on another machine, they say little about this one.
  const std::string& where = inputs.trace.machine;
  text += inputs.estimated
              ? "durations     estimated from the machine's figures\n"
              : fmt::format("durations     as recorded{}; see --estimate-times\n",
                            where.empty() ? "" : " (" + printable(where, kRecordedWidth) + ")");
  if (!inputs.trace.scratch_known) {
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
  return fmt::format("left free     {} for workspace; see --workspace-margin\n",
                     to_string(inputs.margin));
}

}  // namespace spillway::tools
