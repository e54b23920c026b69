// SPDX-License-Identifier: Apache-2.0
// Graphs for tests, made by hand or at random.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graph_def.hpp"
#include "op_names.hpp"
#include "op_types.hpp"
#include "wire.hpp"

namespace spillway::tf::testing {

/// Ops with one float output, "Two" with two of them, "Text" with a string.
inline std::string describe_op(std::string_view op) {
  constexpr std::uint64_t kString = 7;
  std::string output;
  append_bytes_field(output, 1, "y");
  append_varint_field(output, 3, op == "Text" ? kString : kFloat);
  std::string description;
  append_bytes_field(description, 1, op);
  for (int i = 0; i < (op == "Two" ? 2 : 1); ++i) append_bytes_field(description, 3, output);
  return description;
}

class GraphBuilder {
 public:
  /// Returns the node's name.
  std::string add(const std::string& name, const std::string& op,
                  std::vector<std::string> inputs = {}) {
    graph.nodes.push_back(
        {.name = name, .op = op, .device = {}, .inputs = std::move(inputs), .rest = {}});
    return name;
  }
  std::string add_fresh(const std::string& op, std::vector<std::string> inputs = {}) {
    return add(op + "_" + std::to_string(graph.nodes.size()), op, std::move(inputs));
  }
  std::string add_enter(const std::string& frame, const std::string& input) {
    std::string name = add_fresh("Enter", {input});
    std::string value;
    append_bytes_field(value, 2, frame);
    std::string entry;
    append_bytes_field(entry, 1, "frame_name");
    append_bytes_field(entry, 2, value);
    append_bytes_field(graph.nodes.back().rest, 5, entry);
    return name;
  }
  Node& node(const std::string& name) {
    for (Node& candidate : graph.nodes) {
      if (candidate.name == name) return candidate;
    }
    throw std::logic_error("no node " + name);
  }

  Graph graph;
};

/// A program of ops, branches and loops, inside one another.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : random_(seed) {}

  Graph make(std::size_t ops) {
    std::vector<std::string> values{builder_.add_fresh("Const"), builder_.add_fresh("Mul")};
    block(values, ops, 0);
    return std::move(builder_.graph);
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }
  const std::string& any(const std::vector<std::string>& values) {
    return values[below(values.size())];
  }

  void block(std::vector<std::string>& values, std::size_t ops, int depth) {
    for (std::size_t i = 0; i < ops; ++i) {
      const std::size_t kind = below(24);
      if (kind == 0 && depth < 3) {
        branch(values, ops / 2 + 2, depth);
      } else if (kind == 1 && depth < 3) {
        loop(values, ops / 2 + 2, depth);
      } else {
        values.push_back(op(values));
      }
    }
  }

  // Mostly of what was made last, so that graphs are deep; sometimes of what was made long ago.
  std::string op(const std::vector<std::string>& values) {
    static const std::vector<std::string> kinds{"MatMul", "Mul",   "Cast", "Identity",
                                                "Two",    "Shape", "Text"};
    std::vector<std::string> inputs{values.back()};
    while (below(2) == 0) inputs.push_back(any(values));
    if (below(6) == 0) inputs.push_back("^" + std::string(parse_input(any(values)).node));
    const std::string& kind = kinds[below(3) == 0 ? below(kinds.size()) : below(3)];
    const std::string name = builder_.add_fresh(kind, inputs);
    return kind == "Two" && below(2) == 0 ? name + ":1" : name;
  }

  void branch(std::vector<std::string>& values, std::size_t ops, int depth) {
    const std::string predicate = any(values);
    std::vector<std::string> sides[2];
    const std::size_t count = 1 + below(3);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = builder_.add_fresh("Switch", {any(values), predicate});
      sides[0].push_back(name);
      sides[1].push_back(name + ":1");
    }
    for (auto& side : sides) {
      // A branch's computation hangs on an op in it: an output of Switch must not be controlled by.
      side = {builder_.add_fresh("Mul", side)};
      block(side, below(ops), depth + 1);
    }
    for (std::size_t i = 0; i < 1 + below(2); ++i) {
      values.push_back(builder_.add_fresh("Merge", {any(sides[0]), any(sides[1])}));
    }
  }

  void loop(std::vector<std::string>& values, std::size_t ops, int depth) {
    const std::string frame = "frame_" + std::to_string(builder_.graph.nodes.size());
    std::vector<std::string> merges;
    const std::size_t count = 2 + below(3);  // the first one counts
    for (std::size_t i = 0; i < count; ++i) {
      const std::string from =
          i == 0 ? builder_.add_fresh("Zero", {"^" + node_of(any(values))}) : any(values);
      merges.push_back(builder_.add_fresh("Merge", {builder_.add_enter(frame, from)}));
    }
    const std::string condition =
        builder_.add_fresh("LoopCond", {builder_.add_fresh("LessThan3", {merges[0]})});
    std::vector<std::string> body;
    for (const std::string& merge : merges) {
      const std::string name = builder_.add_fresh("Switch", {merge, condition});
      body.push_back(builder_.add_fresh("Identity", {name + ":1"}));
      values.push_back(builder_.add_fresh("Exit", {name}));
    }
    const std::string next = builder_.add_fresh("Next", {body[0]});
    block(body, below(ops) + 2, depth + 1);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& from = i == 0 ? next : body[body.size() - 1 - below(2)];
      const std::string back = builder_.add_fresh("NextIteration", {from});
      builder_.node(merges[i]).inputs.push_back(back);
    }
  }

  static std::string node_of(const std::string& input) {
    return std::string(parse_input(input).node);
  }

  std::mt19937_64 random_;
  GraphBuilder builder_;
};

inline const Node& node_named(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.nodes, name, &Node::name);
  if (found == graph.nodes.end()) throw std::logic_error("no node " + name);
  return *found;
}

/// A function's graph: it returns its second node.
inline Graph with_result(Graph graph) {
  graph.nodes.push_back({.name = "result",
                         .op = "_Retval",
                         .device = {},
                         .inputs = {graph.nodes[1].name},
                         .rest = {}});
  return graph;
}

/// A swap-in that waits for its latest time, behind a gate or not, holds up none of the ops that it
/// waits for: with an edge from the tick of that time there is still no cycle.
inline Graph with_latest_edges(Graph graph) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> ticks;
  for (const Node& node : graph.nodes) {
    if (node.op != kTickOp) continue;
    ticks[{*int_of(*node.attribute("clock")), *int_of(*node.attribute("time"))}] = node.name;
  }
  for (Node& node : graph.nodes) {
    if (node.op != kSwapInOp || *int_of(*node.attribute("latest")) == 0) continue;
    node.inputs.push_back(
        "^" + ticks.at({*int_of(*node.attribute("clock")), *int_of(*node.attribute("latest"))}));
  }
  return graph;
}

}  // namespace spillway::tf::testing
