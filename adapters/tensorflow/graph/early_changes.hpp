// SPDX-License-Identifier: Apache-2.0
// Changes of state that a step makes even where there is no more data.
//
//     iterator ──> forward ──> gradients ──> update       ends here if the iterator is at its end
//     seed ──> seed + 1 ──> assign                        has been run by then
//
// A program may train until its iterator has no more: the last step of each epoch then ends at the
// op that asks it. What changes a variable or a generator and needs nothing of that op is ready
// when the step begins, so the framework has run it: such a step draws from Keras's seeds and
// counts iterations. Where an edge of ours made it wait for the data, the next epoch would draw
// other numbers than without Spillway. So these ops, and all that comes before them, wait for none
// but each other.
#pragma once

#include <vector>

#include "graph_def.hpp"
#include "graph_order.hpp"

namespace spillway::tf {

/// Whether a node is such a change or comes before one. All false in a graph that asks no iterator
/// and no queue. Thread-safe: no shared state.
std::vector<bool> find_early_changes(const Graph& graph, const GraphOrder& order);

}  // namespace spillway::tf
