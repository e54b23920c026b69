// SPDX-License-Identifier: Apache-2.0
// Says what an answer is about, in lines of at most 80 columns: which machine, where the durations
// are from, what is left free. Pure functions; thread-safe.
#pragma once

#include <string>

#include "plan/planning_inputs.hpp"

namespace spillway::tools {

/// All of the lines below, and a note on what the figures leave out.
std::string heading(const PlanningInputs& inputs);

std::string machine_line(const PlanningInputs& inputs);

/// Says where the step was recorded, and which durations are taken.
std::string durations_lines(const StepDurations& durations, const Trace& trace,
                            const Machine& machine);

/// The part of the device's budget that stays free; empty where nothing does.
std::string margin_line(const PlanningInputs& inputs);

}  // namespace spillway::tools
