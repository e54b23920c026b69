// SPDX-License-Identifier: Apache-2.0
// A flag that a planning command would not use is a mistake of who typed it: it is refused
// here, for all of them, before anything is read. Pure; thread-safe.
#pragma once

#include "request/planning_request.hpp"

namespace spillway::tools {

/// Throws UserError: which flag means nothing here, and what to do instead; also for a planner that
/// does not exist, an option that none of the chosen planners has, and a value that one refuses.
void check_request(const PlanningRequest& request);

}  // namespace spillway::tools
