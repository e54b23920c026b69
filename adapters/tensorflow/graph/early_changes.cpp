// SPDX-License-Identifier: Apache-2.0
#include "early_changes.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace spillway::tf {
namespace {

using std::string_view;

template <std::size_t kSize>
bool contains_any(string_view op, const std::array<string_view, kSize>& parts) {
  return std::ranges::any_of(parts,
                             [op](string_view part) { return op.find(part) != string_view::npos; });
}

bool takes_data(string_view op) {
  static constexpr std::array<string_view, 3> kParts{"IteratorGetNext", "QueueDequeue",
                                                     "ReaderRead"};
  return contains_any(op, kParts);
}

// Of variables (Assign..., ResourceApply..., ResourceScatter..., and the older ones by reference),
// and of generators, whose ops draw by a state of their own unless they are stateless.
bool changes_state(string_view op) {
  static constexpr std::array<string_view, 9> kParts{"Assign",     "Apply",      "ResourceScatter",
                                                     "ScatterAdd", "ScatterSub", "ScatterUpdate",
                                                     "Random",     "Rng",        "Stateful"};
  return contains_any(op, kParts) && !op.starts_with("Stateless");
}

}  // namespace

std::vector<bool> find_early_changes(const Graph& graph, const GraphOrder& order) {
  std::vector<bool> early(graph.nodes.size(), false);
  if (std::ranges::none_of(graph.nodes, takes_data, &Node::op)) return early;
  const auto before = find_nodes_before(graph, order);
  std::vector<bool> has_data(graph.nodes.size(), false);
  for (const NodeIndex node : order.sequence) {
    has_data[node] =
        takes_data(graph.nodes[node].op) ||
        std::ranges::any_of(before[node], [&](NodeIndex earlier) { return has_data[earlier]; });
    early[node] = !has_data[node] && changes_state(graph.nodes[node].op);
  }
  for (auto node = order.sequence.rbegin(); node != order.sequence.rend(); ++node) {
    if (!early[*node]) continue;
    for (const NodeIndex earlier : before[*node]) early[earlier] = true;
  }
  return early;
}

}  // namespace spillway::tf
