// SPDX-License-Identifier: Apache-2.0
#include "plan/step_durations.hpp"

#include <fmt/format.h>

#include "spillway/base/error.hpp"
#include "text/output_text.hpp"

namespace spillway::tools {

bool recorded_on(const Trace& trace, const Machine& machine) {
  return trace.machine == machine.name || trace.machine == machine.device.name;
}

StepDurations step_durations(const Trace& trace, const Machine& machine,
                             std::optional<Durations> asked, const Plan* plan) {
  if (!trace.timed) {
    if (asked != Durations::kRecorded) return {Durations::kEstimated, Origin::kNotRecorded};
    throw UserError(
        "The trace has no durations, since it was recorded without running: leave "
        "--recorded-times out.");
  }
  if (asked) return {*asked, Origin::kFlag};
  if (plan != nullptr) {
    if (!plan->durations) return {Durations::kRecorded, Origin::kOldPlan};
    if (plan->durations == Durations::kEstimated || plan->recorded_on == trace.machine) {
      return {*plan->durations, Origin::kPlan};
    }
  }
  if (trace.machine.empty()) return {Durations::kRecorded, Origin::kNotSaid};
  if (recorded_on(trace, machine)) return {Durations::kRecorded, Origin::kSameMachine};
  return {Durations::kEstimated, Origin::kElsewhere};
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

}  // namespace spillway::tools
