// SPDX-License-Identifier: Apache-2.0
// Why there is no plan, worked out from the step itself.
//
// A step needs at every op what the op touches on the device, and somewhere what is alive besides;
// and it begins with its inputs on the device. The op that binds is the one that lacks most.
#pragma once

#include <functional>

#include "spillway/planning/cost/step_model.hpp"
#include "spillway/planning/planner.hpp"

namespace spillway::planning {

/// Bytes that no plan does without: the largest working set of an op with its smallest scratch
/// memory, or the inputs that a step begins with.
struct Floor {
  std::uint64_t bytes = 0;
  Row op = 0;
  bool of_inputs = false;  ///< they need more than any op
};
Floor floor_of(const StepModel& model);

/// Bytes that no plan does without on all tiers together: what an op touches, with its smallest
/// scratch memory, and all else that is used again and that nothing could make again after it.
Floor floor_of_all_tiers(const StepModel& model);
/// By how much that is more than all budgets together: above 0 there is no plan.
std::uint64_t short_on_all_tiers(const StepModel& model);

/// Whether a planner has a plan within such budgets.
using FitsBudgets = std::function<bool(const Budgets&)>;

/// `fits` is asked for budgets of which one is larger than the problem's, of each tier about
/// `most_tries` times; if those are few, of the device alone.
Infeasible explain_shortage(const Problem& problem, const StepModel& model, const FitsBudgets& fits,
                            int most_tries);

}  // namespace spillway::planning
