// SPDX-License-Identifier: Apache-2.0
// Works out from the step itself why there is no plan.
//
// A step needs at every op what the op touches on the device, and somewhere what is alive besides;
// and it begins with its inputs on the device. The op that binds is the one that lacks most.
#pragma once

#include <functional>

#include "spillway/planning/cost/step_model.hpp"
#include "spillway/planning/planner.hpp"

namespace spillway::planning {

/// Whether a planner has a plan within such budgets.
using FitsBudgets = std::function<bool(const Budgets&)>;

/// `fits` is asked for budgets of which one is larger than the problem's, of each tier about
/// `most_tries` times; if those are few, of the device alone.
Infeasible explain_shortage(const Problem& problem, const StepModel& model, const FitsBudgets& fits,
                            int most_tries);

}  // namespace spillway::planning
