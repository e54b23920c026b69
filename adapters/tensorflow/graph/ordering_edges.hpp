// SPDX-License-Identifier: Apache-2.0
// Edges that only order nodes, put into a graph before its pairs: what planners of graphs change in
// the order of execution. Values stay what they were, since every edge agrees with an order that
// the graph allows, and a node waits only for nodes that run equally often.
//
//   serialised levels    u1 ─> u2 ─> u3          heavy ops of one level, one after the other
//
//   partitions           a, b, c ─> barrier ─> d, e, f ─> barrier ─> ...
//
// Let before(u, v) be the graph's own order, level(v) the longest way to v, and i(v) the place of v
// among the nodes.
//
// Serialising a level (TFLMS): for heavy nodes u, v of one context with level(u) = level(v) and no
// such node between them in i, the edge u ─> v. Every edge of the new graph leads to a node that is
// greater by (level, i), so there is no cycle.
//
// Partitions (TensorFlowMem): let the nodes of a context be v_1, v_2, ... in depth-first order, and
// partition k those from (k-1)n + 1 to kn. For each k a node b_k, each v of partition k ─> b_k and
// b_k ─> each v of partition k+1. Every edge leads to a node that comes later in the depth-first
// order of the whole graph, so there is no cycle. Edges are left out where others imply them.
//
// Frames: only nodes of one context, so of one frame, are tied. The graph must have an order; the
// order is void afterwards. Thread-safe: no shared state.
#pragma once

#include <cstdint>
#include <vector>

#include "graph_def.hpp"
#include "graph_order.hpp"

namespace spillway::tf {

/// `heavy`: of each context, by level.
void serialise_levels(Graph& graph, const GraphOrder& order,
                      const std::vector<std::vector<NodeIndex>>& heavy);

/// The partitions of each context, of `size` nodes and a smaller last one; in depth-first order.
std::vector<std::vector<std::vector<NodeIndex>>> find_partitions(const Graph& graph,
                                                                 const GraphOrder& order,
                                                                 std::size_t size);

void put_barriers(Graph& graph, const GraphOrder& order, std::size_t size);

}  // namespace spillway::tf
