// SPDX-License-Identifier: Apache-2.0
// The memory that no plan does without, by counting.
#pragma once

#include <cstdint>

#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning {

/// Bytes that no plan does without: the largest working set of an op with its smallest workspace
/// , or the inputs that a step begins with.
struct Floor {
  std::uint64_t bytes = 0;
  Row op = 0;
  bool of_inputs = false;  ///< they need more than any op
};
Floor floor_of(const StepModel& model);

/// Bytes that no plan does without on all tiers together: what an op touches, with its smallest
/// workspace, and all else that is used again and that nothing could make again after it.
Floor floor_of_all_tiers(const StepModel& model);
/// By how much that is more than all budgets together: above 0 there is no plan.
std::uint64_t short_on_all_tiers(const StepModel& model);

}  // namespace spillway::planning
