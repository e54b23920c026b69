// SPDX-License-Identifier: Apache-2.0
// What can be seen of a plan without walking the step: order, ids, words.
#pragma once

#include <optional>

#include "spillway/plan/validator.hpp"

namespace spillway {

std::optional<PlanProblem> check_form(const Plan& plan, const Trace& trace);

}  // namespace spillway
