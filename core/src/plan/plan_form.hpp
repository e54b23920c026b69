// SPDX-License-Identifier: Apache-2.0
// Checks of a plan that need no walk of the step: order, ids, words.
#pragma once

#include <optional>

#include "spillway/plan/validator.hpp"

namespace spillway {

std::optional<PlanProblem> check_form(const Plan& plan, const Trace& trace);

}  // namespace spillway
