// SPDX-License-Identifier: Apache-2.0
#include "ordering_edges.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "op_names.hpp"
#include "swap_pairs.hpp"

namespace spillway::tf {
namespace {

void put_edge(Graph& graph, const std::string& before, NodeIndex after) {
  graph.nodes[after].inputs.push_back("^" + before);
}

using Partition = std::vector<NodeIndex>;

std::vector<std::string> names_of(const Graph& graph, const Partition& partition) {
  std::vector<std::string> names;
  names.reserve(partition.size());
  for (const NodeIndex node : partition) names.push_back(graph.nodes[node].name);
  return names;
}

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

class UpdateOrder {
 public:
  UpdateOrder(Graph& graph, const GraphOrder& order, const EarlyChanges& early)
      : graph_(graph),
        order_(order),
        before_(find_nodes_before(graph, order)),
        early_(early),
        block_(graph.nodes.size(), 0) {
    for (NodeIndex node = 0; node < graph_.nodes.size(); ++node) {
      if (is_update_in_place(graph_.nodes[node].op) && !order_.inputs[node].empty()) {
        updates_.push_back(node);
      }
      for (const Edge& edge : order_.inputs[node]) {
        if (!edge.control && !edge.back) users_[edge.from].push_back(node);
      }
    }
    std::ranges::sort(updates_, {}, [&](NodeIndex node) { return rank(node); });
  }

  void put_edges() {
    for (const NodeIndex update : updates_) put_readers_before(update);
    LastUpdates last;
    LastUpdates last_early;
    for (std::size_t k = 0; k < updates_.size(); ++k) {
      const NodeIndex update = updates_[k];
      const std::uint32_t context = order_.context[update];
      for (const NodeIndex node : take_block(update, k + 1)) {
        if (!is_first(node, context)) continue;
        put_after(last_early, context, node);
        if (!early_.contains(node)) put_after(last, context, node);
      }
      if (!may_be_tied(graph_.nodes[update])) continue;
      (early_.contains(update) ? last_early : last)[context] = update;
    }
  }

 private:
  using LastUpdates = std::map<std::uint32_t, NodeIndex>;  // of contexts

  void put_after(const LastUpdates& last, std::uint32_t context, NodeIndex node) {
    const auto earlier = last.find(context);
    if (earlier != last.end()) put_edge(graph_, graph_.nodes[earlier->second].name, node);
  }

  [[nodiscard]] std::pair<std::uint32_t, NodeIndex> rank(NodeIndex node) const {
    return {order_.level[node], node};
  }
  [[nodiscard]] bool is_tied(NodeIndex node, std::uint32_t context) const {
    return order_.context[node] == context && may_be_tied(graph_.nodes[node]);
  }

  void put_readers_before(NodeIndex update) {
    for (const NodeIndex read : users_[order_.inputs[update].front().from]) {
      if (graph_.nodes[read].op == "ReadVariableOp") put_users_before(read, update);
    }
  }

  void put_users_before(NodeIndex read, NodeIndex update) {
    for (const NodeIndex user : users_[read]) {
      if (order_.level[user] >= order_.level[update]) continue;
      if (is_alias(graph_.nodes[user].op)) put_users_before(user, update);
      if (!is_tied(user, order_.context[update])) continue;
      if (early_.contains(update) && !early_.contains(user)) continue;
      put_edge(graph_, graph_.nodes[user].name, update);
      before_[update].push_back(user);
    }
  }

  // What comes before the update, and is in no block yet, with it.
  std::vector<NodeIndex> take_block(NodeIndex update, std::size_t number) {
    std::vector<NodeIndex> found;
    std::vector<NodeIndex> rest;
    const auto visit = [&](NodeIndex node) {
      if (block_[node] != 0) return;
      block_[node] = number;
      found.push_back(node);
      rest.push_back(node);
    };
    visit(update);
    while (!rest.empty()) {
      const NodeIndex node = rest.back();
      rest.pop_back();
      for (const NodeIndex earlier : before_[node]) visit(earlier);
    }
    return found;
  }

  [[nodiscard]] bool is_first(NodeIndex node, std::uint32_t context) const {
    return is_tied(node, context) && std::ranges::none_of(before_[node], [&](NodeIndex earlier) {
             return block_[earlier] == block_[node] &&
                    early_.contains(earlier) == early_.contains(node) && is_tied(earlier, context);
           });
  }

  Graph& graph_;
  const GraphOrder& order_;
  std::vector<std::vector<NodeIndex>> before_;
  const EarlyChanges& early_;
  std::vector<std::size_t> block_;  // 0: in none yet
  std::vector<NodeIndex> updates_;
  std::map<NodeIndex, std::vector<NodeIndex>> users_;
};

}  // namespace

void order_updates(Graph& graph, const GraphOrder& order, const EarlyChanges& early) {
  if (std::ranges::none_of(graph.nodes, exchanges, &Node::op))
    UpdateOrder(graph, order, early).put_edges();
}

void serialise_levels(Graph& graph, const GraphOrder& order,
                      const std::vector<std::vector<NodeIndex>>& heavy, const EarlyChanges& early) {
  for (const std::vector<NodeIndex>& row : heavy) {
    std::vector<NodeIndex> nodes;
    std::ranges::copy_if(row, std::back_inserter(nodes),
                         [&](NodeIndex node) { return may_be_tied(graph.nodes[node]); });
    std::ranges::sort(nodes, {}, [&](NodeIndex node) {
      return std::tuple(order.level[node], !early.contains(node), node);
    });
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      if (order.level[nodes[i - 1]] != order.level[nodes[i]]) continue;
      put_edge(graph, graph.nodes[nodes[i - 1]].name, nodes[i]);
    }
  }
}

std::vector<std::vector<std::vector<NodeIndex>>> find_partitions(const Graph& graph,
                                                                 const GraphOrder& order,
                                                                 std::size_t size,
                                                                 const EarlyChanges& early) {
  std::vector<std::vector<Partition>> partitions;
  for (const NodeIndex node : depth_first_sequence(graph, order)) {
    if (early.contains(node) || !may_be_tied(graph.nodes[node])) continue;
    const std::size_t context = order.context[node];
    if (partitions.size() <= context) partitions.resize(context + 1);
    std::vector<Partition>& row = partitions[context];
    if (row.empty() || row.back().size() == size) row.emplace_back();
    row.back().push_back(node);
  }
  return partitions;
}

std::vector<std::vector<std::string>> put_barriers(Graph& graph, const GraphOrder& order,
                                                   std::size_t size, const EarlyChanges& early) {
  const auto partitions = find_partitions(graph, order, size, early);
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
  const auto most = std::ranges::max_element(partitions, {}, &std::vector<Partition>::size);
  std::vector<std::vector<std::string>> names;
  if (most == partitions.end()) return names;
  for (const Partition& partition : *most) names.push_back(names_of(graph, partition));
  return names;
}

}  // namespace spillway::tf
