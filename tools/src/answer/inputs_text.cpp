// SPDX-License-Identifier: Apache-2.0
#include "answer/inputs_text.hpp"

#include <fmt/format.h>

#include "text/output_text.hpp"

namespace spillway::tools {

std::string heading(const PlanningInputs& inputs) {
  std::string text = machine_line(inputs);
  text += durations_lines(inputs.durations, inputs.trace, inputs.machine);
  if (!inputs.trace.workspace_known) {
    text += inputs.lent == 0
                ? "note          recorded without kernels: floor and peak are without workspace\n"
                : fmt::format("note          workspace of {} of {} ops is the machine's\n",
                              inputs.lent, inputs.trace.ops.size());
  }
  const Bytes locked = inputs.machine.page_locked_capacity.value;
  const Bytes host = inputs.budgets.stated[Tier::kHost];
  if (host > locked && inputs.machine.link(LinkKind::kDeviceToHost)) {
    text +=
        fmt::format("note          only {} of the host's {} can be page-locked: slower copies\n",
                    to_string(locked), to_string(host));
  }
  return text + margin_line(inputs);
}

std::string machine_line(const PlanningInputs& inputs) {
  constexpr std::size_t kWidth = 66;
  const bool named = inputs.machine_named;
  return fmt::format("machine       {}{}\n",
                     printable(inputs.machine.name, named ? kWidth : kWidth / 2),
                     named ? "" : ", as none was named: see --machine");
}

std::string durations_lines(const StepDurations& durations, const Trace& trace,
                            const Machine& machine) {
  constexpr std::size_t kWidth = 66;
  std::string text;
  if (!trace.machine.empty()) {
    // Without kernels nothing ran: the durations are that machine's figures already.
    text = fmt::format("{:<14}{}\n", trace.workspace_known ? "recorded on" : "recorded for",
                       printable(trace.machine, kWidth));
  }
  const bool estimated = durations.are == Durations::kEstimated;
  text += estimated ? "durations     estimated from the machine's figures"
                    : "durations     as recorded";
  switch (durations.because) {
    case Origin::kNotRecorded:
      break;
    case Origin::kFlag:
      if (!estimated && !trace.machine.empty() && !recorded_on(trace, machine)) {
        text += ", on another machine";
      }
      break;
    case Origin::kPlan:
      text += ", as for the plan";
      break;
    case Origin::kOldPlan:
      text += ", the plan does not say; see --estimate-times";
      break;
    case Origin::kSameMachine:
      text += "; see --estimate-times";
      break;
    case Origin::kNotSaid:
      text += ", the trace does not say where; see --estimate-times";
      break;
    case Origin::kElsewhere:
      text += "; see --recorded-times";
      break;
  }
  return text + "\n";
}

std::string margin_line(const PlanningInputs& inputs) {
  if (inputs.budgets.margin == Bytes{0}) return "";
  return fmt::format("left free     {} for workspace{}\n", to_string(inputs.budgets.margin),
                     inputs.of_plan ? ", as in the plan" : "; see --workspace-margin");
}

}  // namespace spillway::tools
