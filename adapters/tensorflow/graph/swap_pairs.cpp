// SPDX-License-Identifier: Apache-2.0
#include "swap_pairs.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "op_names.hpp"

namespace spillway::tf {
namespace {

using std::string_view;

// Ops whose output somebody else holds on to, so that a copy elsewhere frees nothing.
bool is_held_elsewhere(string_view op) {
  static constexpr std::array<string_view, 14> kOps{
      "Const",       "HostConst",     "ImmutableConst",         "_Arg",
      "_DeviceArg",  "Placeholder",   "PlaceholderWithDefault", "ReadVariableOp",
      "VarHandleOp", "_VarHandlesOp", "_ReadVariablesOp",       "VariableV2",
      "Variable",    "_EagerConst"};
  return is_one_of(op, kOps);
}

// Ops that put out the memory of a variable, or of a constant of ours.
bool is_variable(string_view op) { return op == "ReadVariableOp" || op == kConstantOp; }

// Ops that put out a few numbers about shapes.
bool is_shape_op(string_view op) {
  static constexpr std::array<string_view, 6> kOps{"Shape", "ShapeN", "Size",
                                                   "Rank",  "Range",  "BroadcastGradientArgs"};
  return is_one_of(op, kOps);
}

bool is_ours(string_view op) { return op.starts_with("Spillway"); }

bool may_leave(string_view op) {
  return !is_control_flow(op) && !is_held_elsewhere(op) && !is_shape_op(op) && !is_ours(op);
}

// A user that looks at the shape alone would bring the bytes back for nothing; one at the end of
// the graph (_Retval) too.
bool may_wait(string_view op) {
  return !is_control_flow(op) && !is_shape_op(op) && op != "_Retval" && op != "_DeviceRetval" &&
         op != "NoOp" && !is_ours(op);
}

// oneDNN's pass, which comes after ours, computes these with its own kernels only where it sees
// their forward op at this input. TensorFlow's kernels give other bits.
bool must_see_producer(string_view op, std::uint32_t input) {
  return ((op == "MaxPoolGrad" || op == "MaxPool3DGrad") && input == 1) ||
         (op == "LRNGrad" && input == 2);
}

class PairSearch {
  using Output = std::pair<NodeIndex, std::uint32_t>;

 public:
  PairSearch(const Graph& graph, const GraphOrder& order, const OpCatalogue& catalogue,
             const PairOptions& options, const EarlyChanges& early_changes)
      : graph_(graph),
        order_(order),
        catalogue_(catalogue),
        options_(options),
        early_changes_(early_changes) {}

  SwapPairs run() {
    result_.heavy = heavy_nodes(graph_, order_);
    std::map<Output, std::vector<Use>> late;
    std::set<Output> stay;
    for (NodeIndex node = 0; node < graph_.nodes.size(); ++node) {
      for (std::uint32_t input = 0; input < order_.inputs[node].size(); ++input) {
        const Edge& edge = order_.inputs[node][input];
        if (is_long(edge, node)) {
          late[{edge.from, edge.port}].push_back({.node = node, .input = input});
        } else if (!edge.control) {
          early_[{edge.from, edge.port}].push_back(node);
        }
        if (stays_for(node, input)) stay.emplace(edge.from, edge.port);
      }
    }
    for (auto& [source, uses] : late) {
      // Its other users would only bring back a copy of what is there.
      if (!stay.contains(source)) add_pair(source.first, source.second, std::move(uses));
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_long(const Edge& edge, NodeIndex user) const {
    const Node& source = graph_.nodes[edge.from];
    return !edge.control && !edge.back && order_.context[edge.from] == order_.context[user] &&
           order_.level[user] > order_.level[edge.from] + options_.distance && is_placed(source) &&
           may_wait(graph_.nodes[user].op) && !early_changes_.contains(user) &&
           (reports_use(source) || (may_leave(source.op) && !is_held(edge.from, edge.port)));
  }

  [[nodiscard]] bool on_card() const { return options_.placement == Placement::kCard; }
  [[nodiscard]] bool is_placed(const Node& node) const {
    return on_card() ? is_on_card(node) : is_on_processor(node);
  }
  [[nodiscard]] bool reports_use(const Node& node) const {
    return !on_card() && is_variable(node.op);
  }
  [[nodiscard]] bool stays_for(NodeIndex user, std::uint32_t input) const {
    return !on_card() && must_see_producer(graph_.nodes[user].op, input);
  }
  [[nodiscard]] bool may_move(DataType type) const {
    return is_plain(type) && !(on_card() && type == kInt32);
  }

  // Whether the memory behind an output is that of a variable, a constant or an argument.
  [[nodiscard]] bool is_held(NodeIndex node, std::uint32_t port) const {
    while (port == 0 && is_alias(graph_.nodes[node].op) && !order_.inputs[node].empty()) {
      const Edge& edge = order_.inputs[node].front();
      if (edge.control) return false;
      node = edge.from;
      port = edge.port;
    }
    return is_held_elsewhere(graph_.nodes[node].op) || is_control_flow(graph_.nodes[node].op);
  }

  void add_pair(NodeIndex node, std::uint32_t port, std::vector<Use> uses) {
    const std::vector<DataType>& types = types_of_outputs(node);
    if (port >= types.size() || !may_move(types[port])) return;
    std::ranges::stable_sort(uses, {}, [this](const Use& use) { return order_.level[use.node]; });
    SwapPair pair{.node = node,
                  .port = port,
                  .type = types[port],
                  .early = std::move(early_[{node, port}]),
                  .variable = is_variable(graph_.nodes[node].op),
                  .swap_ins = {}};
    for (const Use& use : uses) {
      const bool shares = !pair.swap_ins.empty() &&
                          order_.level[use.node] <=
                              order_.level[pair.swap_ins.back().uses.front().node] + options_.group;
      if (!shares) {
        pair.swap_ins.push_back({.uses = {},
                                 .tick = tick_for(node, use.node, options_.ahead),
                                 .last = tick_for(node, use.node, 1),
                                 .gate = {}});
      }
      pair.swap_ins.back().uses.push_back(use);
    }
    result_.pairs.push_back(std::move(pair));
  }

  [[nodiscard]] std::optional<std::uint32_t> tick_for(NodeIndex maker, NodeIndex user,
                                                      std::uint32_t ahead) const {
    return tick_before(order_, result_.heavy, maker, user, ahead);
  }

  const std::vector<DataType>& types_of_outputs(NodeIndex node) {
    const auto [found, fresh] = types_.try_emplace(node);
    if (fresh) {
      const Node& source = graph_.nodes[node];
      found->second = output_types(source, catalogue_(source.op));
    }
    return found->second;
  }

  const Graph& graph_;
  const GraphOrder& order_;
  const OpCatalogue& catalogue_;
  const PairOptions& options_;
  const EarlyChanges& early_changes_;
  SwapPairs result_;
  std::map<Output, std::vector<NodeIndex>> early_;
  std::unordered_map<NodeIndex, std::vector<DataType>> types_;
};

}  // namespace

bool is_alias(string_view op) {
  static constexpr std::array<string_view, 9> kOps{"Identity",    "Reshape",      "Squeeze",
                                                   "ExpandDims",  "StopGradient", "PreventGradient",
                                                   "EnsureShape", "Snapshot",     "Bitcast"};
  return is_one_of(op, kOps);
}

std::optional<std::uint32_t> tick_before(const GraphOrder& order,
                                         const std::vector<std::vector<NodeIndex>>& heavy,
                                         NodeIndex maker, NodeIndex user, std::uint32_t ahead) {
  const std::vector<NodeIndex>& row = heavy[order.context[user]];
  const auto end = std::ranges::lower_bound(row, order.level[user], {},
                                            [&order](NodeIndex i) { return order.level[i]; });
  const auto before = static_cast<std::size_t>(end - row.begin());
  if (before < ahead) return std::nullopt;
  const std::size_t tick = before - ahead;
  if (order.level[row[tick]] <= order.level[maker]) return std::nullopt;
  return static_cast<std::uint32_t>(tick);
}

bool is_heavy(string_view op) {
  static constexpr std::array<string_view, 12> kParts{"MatMul",  "Conv",    "Einsum", "Norm",
                                                      "Pool",    "Softmax", "Relu",   "Tanh",
                                                      "Sigmoid", "Gelu",    "Mul",    "Add"};
  return !op.starts_with("Assign") && contains_any(op, kParts);
}

std::vector<std::vector<NodeIndex>> heavy_nodes(const Graph& graph, const GraphOrder& order) {
  const auto contexts =
      order.context.empty() ? 0 : *std::ranges::max_element(order.context) + std::size_t{1};
  std::vector<std::vector<NodeIndex>> heavy(contexts);
  std::vector<NodeIndex> nodes(order.sequence);
  std::ranges::stable_sort(nodes, {}, [&order](NodeIndex i) { return order.level[i]; });
  for (const NodeIndex i : nodes) {
    if (is_heavy(graph.nodes[i].op)) heavy[order.context[i]].push_back(i);
  }
  return heavy;
}

bool is_on_processor(const Node& node) {
  return node.device.empty() || node.device.find("CPU:") != std::string::npos ||
         node.device.find("cpu:") != std::string::npos;
}

bool is_on_card(const Node& node) {
  constexpr string_view kKind = "GPU:0";
  const string_view device(node.device);
  if (device.size() < kKind.size()) return false;
  const auto same = [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == b; };
  if (!std::ranges::equal(device.substr(device.size() - kKind.size()), kKind, same)) return false;
  const string_view before = device.substr(0, device.size() - kKind.size());
  return before.empty() || before.back() == ':' || before.back() == '/';
}

SwapPairs find_pairs(const Graph& graph, const GraphOrder& order, const OpCatalogue& catalogue,
                     const PairOptions& options, const EarlyChanges& early) {
  return PairSearch(graph, order, catalogue, options, early).run();
}

}  // namespace spillway::tf
