// SPDX-License-Identifier: Apache-2.0
// The order of a graph: levels, distances, and which nodes run together.
//
//     level     length of the longest way from a source; a source lies one below its first user
//     context   nodes of one context run equally often: same loop, same branches, same device
//
// A loop arrives as Enter, Merge, Switch, NextIteration and Exit, a branch as Switch and Merge. The
// context of a node is its frame (the loops around it) and the set of (predicate, side) that its
// inputs passed through. A Merge of the two sides of one predicate takes that condition away, any
// other Merge begins a condition of its own; an Exit goes back to where its frame was entered. So a
// node runs exactly if all its conditions hold, and an edge between two nodes of one context can
// neither wait for what never runs nor cross a frame.
//
// The way from a NextIteration to its Merge, the only one that goes back, is no edge here; in its
// place each NextIteration comes before the Exits of its frame, so that a loop is as long as its
// body. A BiasAddGrad comes after all that a Conv2DBackpropFilter of the same gradient needs, since
// oneDNN's pass may make one op of the two.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "graph_def.hpp"

namespace spillway::tf {

/// Why a graph is left as it is.
class Doubt : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using NodeIndex = std::uint32_t;

struct Edge {
  NodeIndex from = 0;
  std::uint32_t port = 0;
  bool control = false;
  bool back = false;  ///< from a NextIteration to its Merge
};

struct GraphOrder {
  std::vector<std::vector<Edge>> inputs;  ///< of each node, in the order of its inputs
  std::vector<NodeIndex> sequence;        ///< each node after all that come before it
  std::vector<std::uint32_t> level;
  std::vector<std::uint32_t> context;  ///< a number for each context
  std::vector<std::uint32_t> frame;    ///< 0: in no loop
};

/// Throws Doubt where an input has no node, two nodes have one name, there is a cycle, or frames
/// mix; MalformedMessage where an input's text is none.
GraphOrder order_graph(const Graph& graph);

/// Of each node those that come before it: by an edge, a loop before what follows it, and what a
/// merged op needs.
std::vector<std::vector<NodeIndex>> find_nodes_before(const Graph& graph, const GraphOrder& order);

/// The nodes in depth-first order: a node comes when all before it have come, and what became ready
/// last comes next; what one node makes ready, and what follows nothing, keeps the graph's order.
/// Results are then used up soon after they are made (TensorFlowMem, docs/references.md).
std::vector<NodeIndex> depth_first_sequence(const Graph& graph, const GraphOrder& order);

/// Whether an op sends to another device, or waits for one.
bool exchanges(std::string_view op);

/// Whether an edge that only orders may lead to the node or from it: it is no control flow, takes
/// part in no exchange with other devices, is neither an argument nor a result, and oneDNN's pass
/// does not merge it with a neighbour, which computes other bits and ends where such edges differ.
bool may_be_tied(const Node& node);

/// Merge, Switch, Enter, Exit, NextIteration, LoopCond and their kin.
bool is_control_flow(std::string_view op);

}  // namespace spillway::tf
