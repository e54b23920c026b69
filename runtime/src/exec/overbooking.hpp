// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/step_counter.hpp"

namespace spillway::runtime {

/// Whether what does not fit may exceed the budget: by the settings, while ops are not seen, or in
/// the step after that.
[[nodiscard]] inline bool may_overbook(const MoveRules& rules, const StepCounter& steps) {
  return rules.overbook() || rules.blind() || steps.forgiven();
}

}  // namespace spillway::runtime
