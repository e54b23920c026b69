// SPDX-License-Identifier: Apache-2.0
// The end of a pass: it notes where the storages are that live on, and joins the gaps that wrap
// around the end of the step from what both ends of the pass decided.
#pragma once

#include "pass/pass_state.hpp"

namespace spillway::planning::pass {

/// Closes the gaps of `state`'s draft and returns where all storages are. `begin` is what the pass
/// began with.
BeginState close_step(PassState& state, const BeginState& begin);

}  // namespace spillway::planning::pass
