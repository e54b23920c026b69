// SPDX-License-Identifier: Apache-2.0
// The order of a graph once more, by the words of graph_order.hpp alone and in the plainest way:
// it looks at all nodes again and again until nothing changes. Tests compare the rewriting with it,
// so it uses nothing of the rewriting but how an input's text is read, and the names of ops.
#pragma once

#include <bitset>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph_def.hpp"
#include "graph_order.hpp"

namespace spillway::tf::testing {

/// A context: the loops around a node, the sides of branches that were taken, and the device.
struct Place {
  std::vector<std::string> frame;
  std::set<std::string> conditions;
  std::string device;
  auto operator<=>(const Place&) const = default;
};

struct Input {
  NodeIndex from = 0;
  std::uint32_t port = 0;
  bool control = false;
};

class PlainOrder {
 public:
  /// Throws std::logic_error where there is a cycle besides the ways back of loops.
  explicit PlainOrder(Graph graph);

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Node& node(NodeIndex node) const { return graph_.nodes[node]; }
  [[nodiscard]] NodeIndex size() const { return static_cast<NodeIndex>(graph_.nodes.size()); }
  [[nodiscard]] NodeIndex index_of(const std::string& name) const { return index_.at(name); }
  /// In the order of the node's inputs, the ways back of loops included.
  [[nodiscard]] const std::vector<Input>& inputs(NodeIndex node) const { return inputs_[node]; }
  /// What has an edge to the node, and what else directly comes before it.
  [[nodiscard]] const std::set<NodeIndex>& before(NodeIndex node) const { return before_[node]; }
  [[nodiscard]] std::uint32_t level(NodeIndex node) const { return level_[node]; }
  [[nodiscard]] const Place& place(NodeIndex node) const { return *place_[node]; }

 private:
  void find_inputs();
  void find_places();
  [[nodiscard]] Place find_place(NodeIndex node);
  [[nodiscard]] Place passed_by(const Input& input) const;
  void end_loops();
  void find_levels();
  void lower_sources();

  Graph graph_;
  std::unordered_map<std::string, NodeIndex> index_;
  std::vector<std::vector<Input>> inputs_;
  std::vector<std::set<NodeIndex>> before_;
  std::vector<std::optional<Place>> place_;
  std::map<std::vector<std::string>, std::set<std::string>> entered_;  // conditions, by frame
  std::vector<std::uint32_t> level_;
};

using NodeSet = std::bitset<4096>;

/// Of each node all from which a way leads to it.
std::vector<NodeSet> all_before(const PlainOrder& order);

/// What became ready last comes next, and of several the first in the graph.
std::vector<NodeIndex> plain_depth_first(const PlainOrder& order);

}  // namespace spillway::tf::testing
