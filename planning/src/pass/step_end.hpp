// SPDX-License-Identifier: Apache-2.0
// Where a pass ends: what lives on is somewhere, and the gap that wraps around the end of the step
// is made of what both ends of the pass decided.
#pragma once

#include "pass/pass_state.hpp"

namespace spillway::planning::pass {

/// Closes the gaps of `state`'s draft and returns where all storages are. `begin` is what the pass
/// began with.
BeginState close_step(PassState& state, const BeginState& begin);

}  // namespace spillway::planning::pass
