// SPDX-License-Identifier: Apache-2.0
// Finds the end of the forward pass from the trace alone.
//
// Most is alive where forward turns into backward, so the turn is the op of the largest number of
// bytes of feature maps alive. What is made before it and used after it is what the backward pass
// waits for.
#pragma once

#include <vector>

#include "spillway/planning/cost/step_model.hpp"
#include "spillway/planning/problem.hpp"

namespace spillway::planning {

struct ForwardPass {
  Row turn = 0;            ///< the first op of the backward pass
  std::vector<Row> saved;  ///< storages made before and used after it, in the order of their making
  std::vector<Row> last_use;  ///< of each, before the turn: touch
};

ForwardPass forward_pass(const Problem& problem, const StepModel& model);

/// Whether making a storage is dear: its op calculates more per byte than the machine's memory is
/// slower than its arithmetic, or, where FLOP are not known, it takes long for its bytes.
std::vector<bool> heavy_ops(const Problem& problem, const StepModel& model);

}  // namespace spillway::planning
