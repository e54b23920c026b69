// SPDX-License-Identifier: Apache-2.0
#include "plan/step_durations.hpp"

#include "spillway/base/error.hpp"

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

}  // namespace spillway::tools
