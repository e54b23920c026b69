// SPDX-License-Identifier: Apache-2.0
// Edges that only order nodes, put into a graph before its pairs: what planners of graphs change in
// the order of execution. Values stay what they were, since every edge agrees with an order that
// the graph allows, and a node waits only for nodes that run equally often.
//
//   serialised levels    u1 ─> u2 ─> u3          heavy ops of one level, one after the other
//
//   partitions           a, b, c ─> barrier ─> d, e, f ─> barrier ─> ...
//
//   updates              all that u1 needs ─> u1 ─> what u2 needs besides ─> u2 ─> ...
//                        readers of its variable ─^
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
// Updates (ours): let u_1, u_2, ... be the ops that change a variable in place, by (level, i). A
// node c of u's context that reads what a ReadVariableOp of u's variable put out, with level(c) <
// level(u), comes before u, which would else change a copy. Then let block k be what comes before
// u_k and before no earlier one, with u_k. Each of the first nodes of block k waits for the last
// update of its context in an earlier block. Every edge leads on within a block or to a later one,
// so there is no cycle. So a gradient is used up before the next is computed, and no two variables
// are updated at once: without it, how many are held depends on which threads come first. A graph
// that exchanges tensors between devices is left as it is, since two of them could wait for each
// other.
//
// A node of the early changes (early_changes.hpp) waits only for such nodes: it is in no partition;
// it comes first in its level, so i counts it before the others there; it waits for the last early
// update, where others wait for that one and for the last of their own kind; and no reader that is
// none comes before an early update, which may so change a copy, as without Spillway.
//
// Frames: only nodes of one context, so of one frame, are tied. The graph must have an order; the
// order is void afterwards. Thread-safe: no shared state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "early_changes.hpp"
#include "graph_def.hpp"
#include "graph_order.hpp"

namespace spillway::tf {

/// `heavy`: of each context, by level.
void serialise_levels(Graph& graph, const GraphOrder& order,
                      const std::vector<std::vector<NodeIndex>>& heavy,
                      const EarlyChanges& early = {});

/// The partitions of each context, of `size` nodes and a smaller last one; in depth-first order.
std::vector<std::vector<std::vector<NodeIndex>>> find_partitions(const Graph& graph,
                                                                 const GraphOrder& order,
                                                                 std::size_t size,
                                                                 const EarlyChanges& early = {});

void order_updates(Graph& graph, const GraphOrder& order, const EarlyChanges& early = {});

/// Returns the partitions of the context with most of them, by the names of their nodes.
std::vector<std::vector<std::string>> put_barriers(Graph& graph, const GraphOrder& order,
                                                   std::size_t size,
                                                   const EarlyChanges& early = {});

}  // namespace spillway::tf
