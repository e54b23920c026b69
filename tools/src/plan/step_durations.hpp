// SPDX-License-Identifier: Apache-2.0
// The durations that planning commands take for the ops of a step, by one rule for all.
//
// The first that applies decides:
//   the trace has no durations                     estimated
//   a flag, --estimate-times or --recorded-times   as it says
//   a plan, on the machine that it was made for    as it was made; of the trace, if that was
//                                                  recorded where the plan's was, or the plan
//                                                  does not say what it was made with
//   the trace was recorded on the machine,
//   or does not say where                          recorded
//   it was recorded elsewhere                      estimated
// Estimated means by the figures of the machine that is planned for.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "spillway/machine/machine.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tools {

enum class Origin : std::uint8_t {
  kNotRecorded,  ///< the trace has none
  kFlag,
  kPlan,
  kOldPlan,  ///< that does not say
  kSameMachine,
  kNotSaid,  ///< the trace does not say where it was recorded
  kElsewhere,
};

struct StepDurations {
  Durations are = Durations::kRecorded;
  Origin because = Origin::kNotSaid;
};

/// Whether the trace says that it was recorded on the machine, or for it without memory.
bool recorded_on(const Trace& trace, const Machine& machine);

/// `asked`: by a flag. `plan`: one that was made for this machine, or null. Throws UserError where
/// the recorded ones are asked for and there are none.
StepDurations step_durations(const Trace& trace, const Machine& machine,
                             std::optional<Durations> asked, const Plan* plan);

}  // namespace spillway::tools
