// SPDX-License-Identifier: Apache-2.0
#include "graph_order.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "control_context.hpp"

namespace spillway::tf {
namespace {

using Lists = std::vector<std::vector<NodeIndex>>;

std::vector<std::vector<Edge>> find_edges(const Graph& graph) {
  std::unordered_map<std::string_view, NodeIndex> index;
  for (NodeIndex i = 0; i < graph.nodes.size(); ++i) {
    if (!index.emplace(graph.nodes[i].name, i).second) {
      throw Doubt("two nodes are named " + graph.nodes[i].name);
    }
  }
  std::vector<std::vector<Edge>> inputs(graph.nodes.size());
  for (NodeIndex i = 0; i < graph.nodes.size(); ++i) {
    const bool merges = is_merge(graph.nodes[i].op);
    for (const std::string& text : graph.nodes[i].inputs) {
      const InputName name = parse_input(text);
      const auto found = index.find(name.node);
      if (found == index.end()) {
        throw Doubt(graph.nodes[i].name + " has the input " + text + ", which is no node");
      }
      inputs[i].push_back({.from = found->second,
                           .port = name.port,
                           .control = name.control,
                           .back = merges && is_next_iteration(graph.nodes[found->second].op)});
    }
  }
  return inputs;
}

// Every node after those before it; shorter than the graph if there is a cycle.
std::vector<NodeIndex> sort_nodes(const Lists& before, const Lists& after) {
  std::vector<std::size_t> missing(before.size());
  std::vector<NodeIndex> sequence;
  sequence.reserve(before.size());
  for (NodeIndex i = 0; i < before.size(); ++i) {
    missing[i] = before[i].size();
    if (missing[i] == 0) sequence.push_back(i);
  }
  for (std::size_t next = 0; next < sequence.size(); ++next) {
    for (const NodeIndex i : after[sequence[next]]) {
      if (--missing[i] == 0) sequence.push_back(i);
    }
  }
  if (sequence.size() != before.size()) throw Doubt("the graph has a cycle");
  return sequence;
}

struct Neighbours {
  Lists before;
  Lists after;

  void add(NodeIndex from, NodeIndex to) {
    before[to].push_back(from);
    after[from].push_back(to);
  }
};

Neighbours find_neighbours(const std::vector<std::vector<Edge>>& inputs) {
  Neighbours neighbours{Lists(inputs.size()), Lists(inputs.size())};
  for (NodeIndex i = 0; i < inputs.size(); ++i) {
    for (const Edge& edge : inputs[i]) {
      if (!edge.back) neighbours.add(edge.from, i);
    }
  }
  return neighbours;
}

void put_loops_before_exits(const Graph& graph, const std::vector<std::uint32_t>& frame,
                            Neighbours& neighbours) {
  std::unordered_map<std::uint32_t, std::vector<NodeIndex>> ends;
  for (NodeIndex i = 0; i < graph.nodes.size(); ++i) {
    if (is_next_iteration(graph.nodes[i].op)) ends[frame[i]].push_back(i);
  }
  for (NodeIndex i = 0; i < graph.nodes.size(); ++i) {
    if (!is_exit(graph.nodes[i].op)) continue;
    for (const NodeIndex end : ends[frame[i]]) neighbours.add(end, i);
  }
}

// oneDNN's pass, which comes after ours, makes one op of these two where they have one gradient: by
// then all that the one needs has to come before both.
void put_inputs_before_merged(const Graph& graph, const GraphOrder& order, Neighbours& neighbours) {
  constexpr std::size_t kGradient = 2;
  for (NodeIndex filter = 0; filter < graph.nodes.size(); ++filter) {
    const std::vector<Edge>& needs = order.inputs[filter];
    if (graph.nodes[filter].op != "Conv2DBackpropFilter" || needs.size() <= kGradient) continue;
    // By value: what is added below moves the list.
    const std::vector<NodeIndex> users = neighbours.after[needs[kGradient].from];
    for (const NodeIndex bias : users) {
      if (graph.nodes[bias].op != "BiasAddGrad" || order.context[bias] != order.context[filter]) {
        continue;
      }
      for (const Edge& need : needs) neighbours.add(need.from, bias);
    }
  }
}

Neighbours find_all_neighbours(const Graph& graph, const GraphOrder& order) {
  Neighbours neighbours = find_neighbours(order.inputs);
  put_loops_before_exits(graph, order.frame, neighbours);
  put_inputs_before_merged(graph, order, neighbours);
  return neighbours;
}

std::vector<std::uint32_t> find_levels(const Neighbours& neighbours,
                                       const std::vector<NodeIndex>& sequence) {
  std::vector<std::uint32_t> level(sequence.size(), 1);
  for (const NodeIndex i : sequence) {
    for (const NodeIndex after : neighbours.after[i]) {
      level[after] = std::max(level[after], level[i] + 1);
    }
  }
  // A source that is used late would else seem to wait for its user from the beginning.
  for (const NodeIndex i : sequence) {
    if (!neighbours.before[i].empty() || neighbours.after[i].empty()) continue;
    std::uint32_t first = UINT32_MAX;
    for (const NodeIndex after : neighbours.after[i]) first = std::min(first, level[after]);
    level[i] = first - 1;
  }
  return level;
}

}  // namespace

bool is_control_flow(std::string_view op) {
  return is_merge(op) || is_switch(op) || is_enter(op) || is_exit(op) || is_next_iteration(op) ||
         op == "LoopCond" || op == "ControlTrigger";
}

bool exchanges(std::string_view op) {
  return op.starts_with("Collective") || op.starts_with("Nccl") || op.starts_with("_Send") ||
         op.starts_with("_Recv") || op.starts_with("_Host");
}

bool may_be_tied(const Node& node) {
  static constexpr std::array<std::string_view, 14> kNot{
      "_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "Placeholder", "NoOp", "Const",
      "VarHandleOp",
      // oneDNN's pass makes one op of two of these if both wait for the same.
      "Pad", "Conv2D", "_FusedConv2D", "BiasAdd", "Conv2DBackpropFilter", "BiasAddGrad"};
  return !is_control_flow(node.op) && !node.inputs.empty() && !exchanges(node.op) &&
         std::ranges::find(kNot, node.op) == kNot.end();
}

std::vector<std::vector<NodeIndex>> find_nodes_before(const Graph& graph, const GraphOrder& order) {
  return find_all_neighbours(graph, order).before;
}

std::vector<NodeIndex> depth_first_sequence(const Graph& graph, const GraphOrder& order) {
  const Neighbours neighbours = find_all_neighbours(graph, order);
  std::vector<std::size_t> missing(graph.nodes.size());
  std::vector<NodeIndex> stack;
  const auto push_all = [&stack](const std::vector<NodeIndex>& ready) {
    stack.insert(stack.end(), ready.rbegin(), ready.rend());
  };
  std::vector<NodeIndex> ready;
  for (NodeIndex i = 0; i < missing.size(); ++i) {
    missing[i] = neighbours.before[i].size();
    if (missing[i] == 0) ready.push_back(i);
  }
  push_all(ready);
  std::vector<NodeIndex> sequence;
  while (!stack.empty()) {
    const NodeIndex node = stack.back();
    stack.pop_back();
    sequence.push_back(node);
    ready.clear();
    for (const NodeIndex after : neighbours.after[node]) {
      if (--missing[after] == 0) ready.push_back(after);
    }
    push_all(ready);
  }
  return sequence;
}

GraphOrder order_graph(const Graph& graph) {
  GraphOrder order;
  order.inputs = find_edges(graph);
  Neighbours neighbours = find_neighbours(order.inputs);
  ControlContexts contexts =
      find_contexts(graph, order.inputs, sort_nodes(neighbours.before, neighbours.after));
  order.context = std::move(contexts.context);
  order.frame = std::move(contexts.frame);
  put_loops_before_exits(graph, order.frame, neighbours);
  put_inputs_before_merged(graph, order, neighbours);
  order.sequence = sort_nodes(neighbours.before, neighbours.after);
  order.level = find_levels(neighbours, order.sequence);
  return order;
}

}  // namespace spillway::tf
