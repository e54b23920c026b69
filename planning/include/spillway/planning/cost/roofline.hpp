// SPDX-License-Identifier: Apache-2.0
// Estimates how long ops take on a machine they never ran on, by spillway/machine/roofline.hpp. An
// op that states no bytes is taken to touch all its storages once.
#pragma once

#include <vector>

#include "spillway/machine/machine.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::planning {

/// The time that each op would take. Throws UserError where the machine does not state its memory's
/// rate.
std::vector<TimeNs> roofline_durations(const Trace& trace, const Machine& machine);

/// The trace as it is where it was timed, else with the durations above.
Trace timed_on(Trace trace, const Machine& machine);

}  // namespace spillway::planning
