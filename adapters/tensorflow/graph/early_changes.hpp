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
//
// The framework has no time for a change that much comes before, such as the update of a network
// that is fed with noise; that one is ordered, and its tensors leave, as those of other updates. So
// is a change in a loop.
#pragma once

#include <vector>

#include "graph_def.hpp"
#include "graph_order.hpp"

namespace spillway::tf {

/// A value. Thread-safe as one.
class EarlyChanges {
 public:
  /// None.
  EarlyChanges() = default;
  /// Those of a graph as the program has it; none where it asks no iterator and no queue.
  EarlyChanges(const Graph& graph, const GraphOrder& order);

  /// Whether a node is such a change or comes before one. A node that was added since is neither.
  [[nodiscard]] bool contains(NodeIndex node) const { return node < nodes_.size() && nodes_[node]; }

 private:
  std::vector<bool> nodes_;
};

}  // namespace spillway::tf
