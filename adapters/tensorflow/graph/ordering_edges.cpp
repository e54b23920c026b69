// SPDX-License-Identifier: Apache-2.0
#include "ordering_edges.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "rewrite.hpp"

namespace spillway::tf {
namespace {

void put_edge(Graph& graph, const std::string& before, NodeIndex after) {
  graph.nodes[after].inputs.push_back("^" + before);
}

using Partition = std::vector<NodeIndex>;

// Those of which no other of the partition is a neighbour: `ends` takes those without one after
// them, else those without one before.
Partition border(const GraphOrder& order, const Partition& partition, bool ends) {
  std::vector<NodeIndex> members(partition);
  std::ranges::sort(members);
  const auto is_member = [&members](NodeIndex node) {
    return std::ranges::binary_search(members, node);
  };
  std::vector<NodeIndex> inner;
  for (const NodeIndex node : partition) {
    for (const Edge& edge : order.inputs[node]) {
      if (edge.back || !is_member(edge.from)) continue;
      inner.push_back(ends ? edge.from : node);
    }
  }
  std::ranges::sort(inner);
  Partition found;
  for (const NodeIndex node : partition) {
    if (!std::ranges::binary_search(inner, node)) found.push_back(node);
  }
  return found;
}

}  // namespace

void serialise_levels(Graph& graph, const GraphOrder& order,
                      const std::vector<std::vector<NodeIndex>>& heavy) {
  for (const std::vector<NodeIndex>& row : heavy) {
    std::vector<NodeIndex> nodes;
    std::ranges::copy_if(row, std::back_inserter(nodes),
                         [&](NodeIndex node) { return may_be_tied(graph.nodes[node]); });
    std::ranges::sort(nodes, {},
                      [&](NodeIndex node) { return std::pair(order.level[node], node); });
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      if (order.level[nodes[i - 1]] != order.level[nodes[i]]) continue;
      put_edge(graph, graph.nodes[nodes[i - 1]].name, nodes[i]);
    }
  }
}

std::vector<std::vector<std::vector<NodeIndex>>> find_partitions(const Graph& graph,
                                                                 const GraphOrder& order,
                                                                 std::size_t size) {
  std::vector<std::vector<Partition>> partitions;
  for (const NodeIndex node : depth_first_sequence(graph, order)) {
    if (!may_be_tied(graph.nodes[node])) continue;
    const std::size_t context = order.context[node];
    if (partitions.size() <= context) partitions.resize(context + 1);
    std::vector<Partition>& row = partitions[context];
    if (row.empty() || row.back().size() == size) row.emplace_back();
    row.back().push_back(node);
  }
  return partitions;
}

void put_barriers(Graph& graph, const GraphOrder& order, std::size_t size) {
  const auto partitions = find_partitions(graph, order, size);
  for (std::size_t context = 0; context < partitions.size(); ++context) {
    const std::vector<Partition>& row = partitions[context];
    for (std::size_t k = 1; k < row.size(); ++k) {
      Node barrier{.name = std::string(kPrefix) + "barrier_" + std::to_string(context) + "_" +
                           std::to_string(k),
                   .op = "NoOp",
                   .device = graph.nodes[row[k].front()].device,
                   .inputs = {},
                   .rest = {}};
      for (const NodeIndex node : border(order, row[k - 1], true)) {
        barrier.inputs.push_back("^" + graph.nodes[node].name);
      }
      for (const NodeIndex node : border(order, row[k], false)) put_edge(graph, barrier.name, node);
      graph.nodes.push_back(std::move(barrier));
    }
  }
}

}  // namespace spillway::tf
