// SPDX-License-Identifier: Apache-2.0
// All planners by name. Thread-safe; what is returned lives as long as the program.
#pragma once

#include <span>
#include <string_view>

#include "spillway/planning/planner.hpp"

namespace spillway::planning {

/// In the order in which they are listed to people.
std::span<const Planner* const> planners();

/// Throws UserError naming the nearest planner where there is none of that name.
const Planner& planner_named(std::string_view name);

}  // namespace spillway::planning
