// SPDX-License-Identifier: Apache-2.0
#include "plain_rules.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "graph_builder.hpp"

namespace spillway::tf::testing {
namespace {

bool is_any_of(const Node& node, std::initializer_list<std::string_view> ops) {
  return std::ranges::find(ops, node.op) != ops.end();
}

// Products, convolutions, activations and the like.
bool is_heavy(const Node& node) {
  return is_any_of(node, {"MatMul", "Mul", "Conv2D", "Relu", "MaxPool", "MaxPoolGrad"});
}

bool is_alias_of_input(const Node& node) { return is_any_of(node, {"Identity", "Reshape"}); }

std::ptrdiff_t data_inputs(const Node& node) {
  return std::ranges::count_if(node.inputs,
                               [](const std::string& input) { return input[0] != '^'; });
}

bool hands_on(const Node& node) {
  return is_any_of(node, {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"});
}

bool may_be_ordered(const Node& node) {
  return !hands_on(node) && !is_any_of(node, {"Const", "_Arg", "_Retval", "Conv2D"});
}

}  // namespace

bool is_variable_read(const Node& node) { return node.op == "ReadVariableOp"; }

Graph dressed_graph(std::uint64_t seed) {
  Graph graph = with_result(RandomGraph(seed).make(20 + seed % 40));
  std::mt19937_64 random(seed);
  const auto one_in = [&random](std::uint64_t n) { return random() % n == 0; };
  for (int i = 0; i < 4; ++i) {
    const Node& made = graph.nodes[random() % graph.nodes.size()];
    if (hands_on(made)) continue;
    graph.nodes.push_back({.name = "result_" + std::to_string(i),
                           .op = "_Retval",
                           .device = {},
                           .inputs = {std::string(made.name)},
                           .rest = {}});
  }
  for (Node& node : graph.nodes) {
    if (node.op == "Cast" && one_in(4)) node.op = "ReadVariableOp";
    if (node.op == "Cast" && one_in(6)) node.op = "Relu";
    if (node.op == "Mul" && one_in(8)) node.op = "Reshape";
    if (node.op == "Mul" && one_in(6)) node.op = "MaxPool";
    if (node.op == "MatMul" && one_in(8)) node.op = "Conv2D";
    if (node.op == "MatMul" && data_inputs(node) == 3) node.op = "MaxPoolGrad";
    if (seed % 3 != 0) node.device = "/device:CPU:0";
    if (seed % 4 == 0 && one_in(10)) node.device = "/device:CPU:1";
    if (seed % 4 == 1 && one_in(10)) node.device = "/device:GPU:0";
  }
  graph.nodes[1].op = "_Arg";
  return graph;
}

HeavyRows plain_heavy_rows(const PlainOrder& order) {
  HeavyRows rows;
  for (NodeIndex i = 0; i < order.size(); ++i) {
    if (is_heavy(order.node(i))) rows[order.place(i)].push_back(i);
  }
  for (auto& [place, row] : rows) {
    std::ranges::stable_sort(row, {}, [&order](NodeIndex i) { return order.level(i); });
  }
  return rows;
}

Graph with_serial_levels(const Graph& graph) {
  const PlainOrder order(graph);
  Graph tied = graph;
  for (const auto& [place, row] : plain_heavy_rows(order)) {
    std::optional<NodeIndex> last;
    for (const NodeIndex heavy : row) {
      if (!may_be_ordered(graph.nodes[heavy])) continue;
      if (last && order.level(*last) == order.level(heavy)) {
        tied.nodes[heavy].inputs.push_back("^" + graph.nodes[*last].name);
      }
      last = heavy;
    }
  }
  return tied;
}

Partitions plain_partitions(const PlainOrder& order, std::size_t size) {
  Partitions partitions;
  for (const NodeIndex node : plain_depth_first(order)) {
    if (!may_be_ordered(order.node(node))) continue;
    auto& of_context = partitions[order.place(node)];
    if (of_context.empty() || of_context.back().size() == size) of_context.emplace_back();
    of_context.back().push_back(node);
  }
  return partitions;
}

Graph with_all_barriers(const Graph& graph, std::size_t size) {
  Graph tied = graph;
  for (const auto& [place, partitions] : plain_partitions(PlainOrder(graph), size)) {
    for (std::size_t k = 1; k < partitions.size(); ++k) {
      Node barrier{.name = "barrier_" + std::to_string(tied.nodes.size()),
                   .op = "NoOp",
                   .device = place.device,
                   .inputs = {},
                   .rest = {}};
      for (const NodeIndex node : partitions[k - 1]) {
        barrier.inputs.push_back("^" + graph.nodes[node].name);
      }
      for (const NodeIndex node : partitions[k]) {
        tied.nodes[node].inputs.push_back("^" + barrier.name);
      }
      tied.nodes.push_back(std::move(barrier));
    }
  }
  return tied;
}

PlainRules::PlainRules(const PlainOrder& order, const PairOptions& options)
    : order_(order), options_(options), heavy_(plain_heavy_rows(order)) {}

std::map<Tensor, std::vector<Uses>> PlainRules::groups() const {
  std::vector<NodeIndex> by_level;
  for (NodeIndex i = 0; i < order_.size(); ++i) by_level.push_back(i);
  std::ranges::stable_sort(by_level, {}, [this](NodeIndex i) { return order_.level(i); });
  std::map<Tensor, std::vector<Uses>> groups;
  std::map<Tensor, std::uint32_t> first;  // level of the last group's first user
  for (const NodeIndex user : by_level) {
    for (std::size_t k = 0; k < order_.inputs(user).size(); ++k) {
      const Input& input = order_.inputs(user)[k];
      if (!is_late(input, user)) continue;
      const Tensor tensor{.node = input.from, .port = input.port};
      if (groups[tensor].empty() || order_.level(user) > first[tensor] + options_.group) {
        groups[tensor].emplace_back();
        first[tensor] = order_.level(user);
      }
      groups[tensor].back().emplace(user, k);
    }
  }
  return groups;
}

std::vector<NodeIndex> PlainRules::heavy_of(const Uses& uses) const {
  const auto found = heavy_.find(order_.place(uses.begin()->first));
  return found == heavy_.end() ? std::vector<NodeIndex>{} : found->second;
}

std::size_t PlainRules::heavy_until(NodeIndex maker, const Uses& uses, std::size_t ahead) const {
  std::uint32_t first = order_.level(uses.begin()->first);
  for (const auto& use : uses) first = std::min(first, order_.level(use.first));
  const std::vector<NodeIndex> heavy = heavy_of(uses);
  const auto before = static_cast<std::size_t>(
      std::ranges::count_if(heavy, [&](NodeIndex i) { return order_.level(i) < first; }));
  if (before < ahead) return 0;
  const std::size_t count = before - ahead + 1;
  return order_.level(heavy[count - 1]) > order_.level(maker) ? count : 0;
}

bool PlainRules::is_late(const Input& input, NodeIndex user) const {
  return !input.control && order_.level(user) > order_.level(input.from) + options_.distance &&
         order_.place(input.from) == order_.place(user) && may_leave(input) &&
         !hands_on(order_.node(user)) && !is_any_of(order_.node(user), {"Shape", "_Retval"});
}

bool PlainRules::may_leave(const Input& tensor) const {
  const Node& maker = order_.node(tensor.from);
  return maker.device != "/device:GPU:0" && !is_any_of(maker, {"Text", "Shape"}) &&
         (is_variable_read(maker) || !is_held(tensor)) && !is_left_to_gradient(tensor);
}

// Variables, constants, arguments, what a branch or a loop hands on, and what merely looks at them.
bool PlainRules::is_held(const Input& tensor) const {
  const Node& maker = order_.node(tensor.from);
  if (is_alias_of_input(maker)) return is_held(order_.inputs(tensor.from)[0]);
  return hands_on(maker) || is_any_of(maker, {"Const", "_Arg"}) || is_variable_read(maker);
}

// oneDNN's gradient of a max-pooling has to see the forward op as its second input.
bool PlainRules::is_left_to_gradient(const Input& tensor) const {
  for (NodeIndex user = 0; user < order_.size(); ++user) {
    if (order_.node(user).op != "MaxPoolGrad") continue;
    const Input& forward = order_.inputs(user)[1];
    if (forward.from == tensor.from && forward.port == tensor.port) return true;
  }
  return false;
}

}  // namespace spillway::tf::testing
