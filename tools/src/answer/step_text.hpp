// SPDX-License-Identifier: Apache-2.0
// Writes what `plan` and `simulate` found out, in lines of at most 80 columns: `step  12.3 ms, 3 %
// over its 11.9 ms of computing` and what follows. Pure functions; thread-safe.
#pragma once

#include <string>

#include "plan/plan_command.hpp"

namespace spillway::tools {

std::string text_of(const PlanAnswer& answer);
std::string text_of(const NoPlanAnswer& answer);
std::string text_of(const SimulationAnswer& answer);
std::string text_of(const FailureAnswer& answer);

}  // namespace spillway::tools
