// SPDX-License-Identifier: Apache-2.0
#include "early_changes.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <string_view>

#include "op_names.hpp"

namespace spillway::tf {
namespace {

using std::string_view;

// How many nodes may come before an early change. A weight's decay under one of Keras's schedules
// (AdamW, CosineDecay with a warm-up) has 20 of them, besides the two sides of its condition.
constexpr std::size_t kMostBefore = 64;

bool takes_data(string_view op) {
  static constexpr std::array<string_view, 4> kParts{"IteratorGetNext", "QueueDequeue",
                                                     "ReaderRead", "Unstage"};
  return contains_any(op, kParts);
}

// Of variables (Assign..., ResourceApply..., ResourceScatter..., and the older ones by reference),
// of generators, whose ops draw by a state of their own unless they are stateless, and of Python. A
// name too many costs some order.
bool changes_state(string_view op) {
  static constexpr std::array<string_view, 12> kParts{"Assign",           "Apply",
                                                      "Scatter",          "CountUpTo",
                                                      "Random",           "Rng",
                                                      "PyFunc",           "TruncatedNormal",
                                                      "Multinomial",      "NonDeterministicInts",
                                                      "CandidateSampler", "Stateful"};
  return contains_any(op, kParts) && !op.starts_with("Stateless") &&
         !op.starts_with("TensorScatter") && op != "ScatterNd";
}

using Lists = std::vector<std::vector<NodeIndex>>;

// The node and all before it; empty if those are too many.
std::set<NodeIndex> few_before(const Lists& before, NodeIndex node) {
  std::set<NodeIndex> found{node};
  std::vector<NodeIndex> rest{node};
  while (!rest.empty()) {
    const NodeIndex next = rest.back();
    rest.pop_back();
    for (const NodeIndex earlier : before[next]) {
      if (found.insert(earlier).second) rest.push_back(earlier);
    }
    if (found.size() > kMostBefore + 1) return {};
  }
  return found;
}

}  // namespace

EarlyChanges::EarlyChanges(const Graph& graph, const GraphOrder& order) {
  if (std::ranges::none_of(graph.nodes, takes_data, &Node::op)) return;
  nodes_.resize(graph.nodes.size(), false);
  const Lists before = find_nodes_before(graph, order);
  std::vector<bool> waits(graph.nodes.size(), false);  // for data, or for turns of a loop
  for (const NodeIndex node : order.sequence) {
    waits[node] =
        takes_data(graph.nodes[node].op) || order.frame[node] != 0 ||
        std::ranges::any_of(before[node], [&](NodeIndex earlier) { return waits[earlier]; });
    if (waits[node] || !changes_state(graph.nodes[node].op)) continue;
    for (const NodeIndex one : few_before(before, node)) nodes_[one] = true;
  }
}

}  // namespace spillway::tf
