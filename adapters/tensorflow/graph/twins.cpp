// SPDX-License-Identifier: Apache-2.0
#include "twins.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "op_names.hpp"

namespace spillway::tf {
namespace {

using std::string_view;

bool is_broadcast(string_view op) {
  static constexpr std::array<string_view, 3> kOps{"BroadcastTo", "Tile", "Fill"};
  return is_one_of(op, kOps);
}

bool is_reduction(string_view op) {
  static constexpr std::array<string_view, 8> kOps{"Mean", "Sum",    "Prod",   "Max",
                                                   "Min",  "ArgMax", "ArgMin", "EuclideanNorm"};
  return is_one_of(op, kOps);
}

// Their memory is there until the twin has run whether or not it holds them.
bool is_held(string_view op) {
  static constexpr std::array<string_view, 7> kOps{
      "Const", "HostConst", "_Arg", "_DeviceArg", "Placeholder", "ReadVariableOp", kConstantOp};
  return is_one_of(op, kOps);
}

bool is_shape(string_view op) {
  static constexpr std::array<string_view, 5> kOps{"Shape", "ShapeN", "Size", "Rank", "Range"};
  return is_one_of(op, kOps);
}

// Nodes whose outputs are small whatever the batch: variables' values, reductions, and nodes made
// of these alone without a broadcast.
std::vector<bool> find_small(const Graph& graph, const GraphOrder& order) {
  std::vector<bool> small(graph.nodes.size());
  for (const NodeIndex node : order.sequence) {
    const string_view op = graph.nodes[node].op;
    if (op == "Const" || op == "HostConst" || op == "ReadVariableOp" || is_reduction(op) ||
        is_shape(op)) {
      small[node] = true;
    } else if (is_cheap(op) && !is_broadcast(op)) {
      small[node] = std::ranges::all_of(order.inputs[node], [&small](const Edge& edge) {
        return edge.control || (!edge.back && small[edge.from]);
      });
    }
  }
  return small;
}

class TwinSearch {
  using Output = std::pair<NodeIndex, std::uint32_t>;

 public:
  TwinSearch(const Graph& graph, const GraphOrder& order, const TwinOptions& options,
             SwapPairs& found)
      : graph_(graph),
        order_(order),
        options_(options),
        found_(found),
        small_(find_small(graph, order)) {
    for (std::size_t i = 0; i < found.pairs.size(); ++i) {
      pairs_[{found.pairs[i].node, found.pairs[i].port}] = i;
    }
  }

  void run() {
    for (const std::size_t pair : in_order()) {
      if (!may_have_twin(found_.pairs[pair])) continue;
      twin_ = {};
      seen_.clear();
      target_ = found_.pairs[pair].node;
      if (!add_to_cone(target_) || twin_.sources.empty()) continue;
      found_.pairs[pair].twin = twin_;
      join_last_users(found_.pairs[pair]);
      for (const Twin::Source& source : twin_.sources) add_gate(source.pair, pair);
    }
  }

 private:
  [[nodiscard]] std::vector<std::size_t> in_order() const {
    std::vector<std::size_t> place(graph_.nodes.size());
    for (std::size_t i = 0; i < order_.sequence.size(); ++i) place[order_.sequence[i]] = i;
    std::vector<std::size_t> pairs(found_.pairs.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = i;
    std::ranges::stable_sort(pairs, {}, [&](std::size_t i) { return place[found_.pairs[i].node]; });
    return pairs;
  }

  // One that looks at its input's memory, and stays with it, would free nothing.
  [[nodiscard]] bool may_have_twin(const SwapPair& pair) const {
    const string_view op = graph_.nodes[pair.node].op;
    return order_.frame[pair.node] == 0 && is_cheap(op) && !is_alias(op);
  }

  bool add_to_cone(NodeIndex node) {
    if (!seen_.insert(node).second) return true;
    if (!is_cheap(graph_.nodes[node].op) || order_.context[node] != order_.context[target_] ||
        seen_.size() > options_.most_ops) {
      return false;
    }
    for (const Edge& edge : order_.inputs[node]) {
      if (!edge.control && !add_input(edge)) return false;
    }
    twin_.cone.push_back(node);
    return true;
  }

  bool add_input(const Edge& edge) {
    if (edge.back) return false;
    if (small_[edge.from] || is_held(graph_.nodes[edge.from].op)) return true;
    const auto pair = pairs_.find({edge.from, edge.port});
    if (pair == pairs_.end() || found_.pairs[pair->second].twin) return add_to_cone(edge.from);
    if (order_.context[edge.from] != order_.context[target_]) return false;
    const auto same = [&](const Twin::Source& source) { return source.pair == pair->second; };
    if (std::ranges::none_of(twin_.sources, same)) {
      twin_.sources.push_back({.node = edge.from, .port = edge.port, .pair = pair->second});
    }
    return true;
  }

  [[nodiscard]] NodeIndex last_user(std::size_t pair) const {
    return found_.pairs[pair].swap_ins.back().uses.front().node;
  }

  [[nodiscard]] std::uint32_t level_of(const SwapIn& swap_in) const {
    return order_.level[swap_in.gate ? last_user(*swap_in.gate) : swap_in.uses.front().node];
  }

  void join_last_users(SwapPair& pair) const {
    std::vector<SwapIn>& swap_ins = pair.swap_ins;
    const std::uint32_t last = level_of(swap_ins.back());
    const auto first = std::ranges::find_if(swap_ins, [&](const SwapIn& swap_in) {
      return level_of(swap_in) + options_.reach >= last;
    });
    for (auto swap_in = first + 1; swap_in != swap_ins.end(); ++swap_in) {
      first->uses.insert(first->uses.end(), swap_in->uses.begin(), swap_in->uses.end());
    }
    swap_ins.erase(first + 1, swap_ins.end());
  }

  // The source comes back for the twin where its users' own bytes would.
  void add_gate(std::size_t source, std::size_t twin) {
    SwapPair& pair = found_.pairs[source];
    const NodeIndex user = last_user(twin);
    const SwapIn gate{.uses = {},
                      .tick = tick_before(order_, found_.heavy, pair.node, user, options_.ahead),
                      .last = tick_before(order_, found_.heavy, pair.node, user, 1),
                      .gate = twin};
    const auto after = std::ranges::find_if(pair.swap_ins, [&](const SwapIn& swap_in) {
      return level_of(swap_in) >= order_.level[user];
    });
    pair.swap_ins.insert(after, gate);
  }

  const Graph& graph_;
  const GraphOrder& order_;
  const TwinOptions options_;
  SwapPairs& found_;
  const std::vector<bool> small_;  // of each node
  std::map<Output, std::size_t> pairs_;
  // The search under way.
  Twin twin_;
  NodeIndex target_ = 0;
  std::set<NodeIndex> seen_;
};

}  // namespace

bool is_cheap(string_view op) {
  static constexpr std::array<string_view, 62> kOps{
      // Activations.
      "Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Sigmoid", "Tanh", "Softplus", "Softsign",
      "Softmax", "LogSoftmax",
      // Normalisation.
      "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3",
      // Casts, broadcasts, other shapes of the same bytes.
      "Cast", "BroadcastTo", "Tile", "Identity", "Reshape", "Squeeze", "ExpandDims",
      // Element by element.
      "Abs", "Neg", "Sign", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Exp", "Expm1", "Log", "Log1p",
      "Erf", "Erfc", "Sin", "Cos", "Floor", "Ceil", "Round", "LogicalNot", "Add", "AddV2", "AddN",
      "Sub", "Mul", "RealDiv", "DivNoNan", "Maximum", "Minimum", "Pow", "SquaredDifference",
      "Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd",
      "LogicalOr", "Select", "SelectV2", "ZerosLike"};
  return is_one_of(op, kOps);
}

void find_twins(const Graph& graph, const GraphOrder& order, const TwinOptions& options,
                SwapPairs& found) {
  TwinSearch(graph, order, options, found).run();
}

std::string put_cone(Graph& graph, const Twin& twin, std::uint32_t port, const std::string& stem,
                     const std::vector<std::string>& sources) {
  std::map<std::string, std::string, std::less<>> renamed;  // inputs
  for (std::size_t i = 0; i < twin.sources.size(); ++i) {
    const Twin::Source& source = twin.sources[i];
    renamed[to_input(graph.nodes[source.node].name, source.port)] = sources[i];
  }
  std::map<std::string, std::string, std::less<>> twins;  // nodes
  std::string last;
  for (const NodeIndex node : twin.cone) {
    Node copy = graph.nodes[node];
    last = stem + "_" + std::to_string(twins.size());
    twins[copy.name] = last;
    copy.name = last;
    // Nodes that only preceded the original have run long before.
    std::erase_if(copy.inputs, [](const std::string& input) { return parse_input(input).control; });
    for (std::string& input : copy.inputs) {
      const InputName name = parse_input(input);
      if (const auto source = renamed.find(to_input(name.node, name.port));
          source != renamed.end()) {
        input = source->second;
      } else if (const auto cone = twins.find(name.node); cone != twins.end()) {
        input = to_input(cone->second, name.port);
      }
    }
    graph.nodes.push_back(std::move(copy));
  }
  return to_input(last, port);
}

}  // namespace spillway::tf
