// SPDX-License-Identifier: Apache-2.0
// What docs/tensorflow.md and docs/tensorflow-planners.md say of a graph: which uses are cut off,
// which share a swap-in, what it waits for, and which nodes are ordered. Worked out from the graph
// alone and in the plainest way, for tests to compare the rewriting with. Knows the ops of random
// graphs only (`dressed_graph`).
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "plain_order.hpp"
#include "swap_pairs.hpp"

namespace spillway::tf::testing {

/// An output of a node.
struct Tensor {
  NodeIndex node = 0;
  std::uint32_t port = 0;
  auto operator<=>(const Tensor&) const = default;
};

/// Nodes, and which of their inputs.
using Uses = std::set<std::pair<NodeIndex, std::size_t>>;

/// A random function with variables, arguments, several devices, and ops that rules name.
Graph dressed_graph(std::uint64_t seed);

bool is_variable_read(const Node& node);

/// The heavy ops of each context, by level and then as they stand in the graph.
using HeavyRows = std::map<Place, std::vector<NodeIndex>>;
HeavyRows plain_heavy_rows(const PlainOrder& order);

/// With an edge from each heavy op to the next one of its level and context.
Graph with_serial_levels(const Graph& graph);

/// Of each context its partitions.
using Partitions = std::map<Place, std::vector<std::vector<NodeIndex>>>;
Partitions plain_partitions(const PlainOrder& order, std::size_t size);

/// With a barrier between each partition and the next, and all edges to and from it.
Graph with_all_barriers(const Graph& graph, std::size_t size);

class PlainRules {
 public:
  PlainRules(const PlainOrder& order, const PairOptions& options);

  /// Of each tensor its groups of late uses, by level.
  [[nodiscard]] std::map<Tensor, std::vector<Uses>> groups() const;

  /// The heavy ops of the users' context.
  [[nodiscard]] std::vector<NodeIndex> heavy_of(const Uses& uses) const;
  /// How many of them a swap-in for these users waits for: up to the one that is `ahead` before the
  /// first user, by level. None where that one's level is not above the maker's.
  [[nodiscard]] std::size_t heavy_awaited(NodeIndex maker, const Uses& uses) const {
    return heavy_until(maker, uses, options_.ahead);
  }
  /// How many it may wait for: all of lower levels than the first user, with the same exception.
  [[nodiscard]] std::size_t heavy_at_most(NodeIndex maker, const Uses& uses) const {
    return heavy_until(maker, uses, 1);
  }

 private:
  [[nodiscard]] std::size_t heavy_until(NodeIndex maker, const Uses& uses, std::size_t ahead) const;
  [[nodiscard]] bool is_late(const Input& input, NodeIndex user) const;
  [[nodiscard]] bool may_leave(const Input& tensor) const;
  [[nodiscard]] bool is_held(const Input& tensor) const;
  [[nodiscard]] bool is_left_to_gradient(const Input& tensor) const;

  const PlainOrder& order_;
  PairOptions options_;
  HeavyRows heavy_;
};

}  // namespace spillway::tf::testing
