// SPDX-License-Identifier: Apache-2.0
// Sums of many tensors, taken apart.
//
//     a1 .. a20 ─> AddN            a1 .. a4 ─> AddN ─┐
//                                  a5 .. a12 ─> AddN ─> AddN ─┐
//                                  a13 .. a20 ─> AddN ────────> AddN
//
// One op has to have all its inputs at once: the gradient of a weight that an unrolled loop uses in
// each of its n steps would need n times the weight. Taken apart it needs nine, where the inputs
// come one after the other.
//
// The rule, for an AddN of n > 9 inputs: with r = n mod 8, and 8 or 9 more where that is 0 or 1,
// the first r inputs are one sum; each further eight are one, which is added to what there is. Why
// the value is the same in every bit: that is how the kernel adds (AddNOp of
// tensorflow/core/kernels/aggregate_ops.cc: out = a1 + .. + ar, then out = out + (b1 + .. + b8) for
// each further eight). Why there is no cycle: the new nodes lie between a sum's inputs and the sum.
// Inputs that come over the back edge of a loop do not reach an AddN.
//
// Pure; errors: none.
#pragma once

#include "graph_def.hpp"

namespace spillway::tf {

/// The last addition keeps the name of the sum, and what it waits for.
void take_sums_apart(Graph& graph);

}  // namespace spillway::tf
