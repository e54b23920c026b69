// SPDX-License-Identifier: Apache-2.0
#include "rewrite.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph_def.hpp"
#include "graph_order.hpp"
#include "wire.hpp"

namespace spillway::tf {
namespace {

constexpr std::string_view kPrefix = "spillway/";

class Rewriting {
 public:
  Rewriting(Graph& graph, const GraphOrder& order, const SwapPairs& found)
      : graph_(graph), order_(order), found_(found) {}

  void add_ticks() {
    std::map<std::uint32_t, std::set<std::uint32_t>> wanted;  // context to places in its row
    for (const SwapPair& pair : found_.pairs) {
      for (const SwapIn& swap_in : pair.swap_ins) {
        if (swap_in.tick) wanted[order_.context[pair.node]].insert(*swap_in.tick);
      }
    }
    for (const auto& [context, places] : wanted) add_clock(context, places);
  }

  PairName add_pair(const SwapPair& pair, std::uint64_t number) {
    const std::string source = to_input(graph_.nodes[pair.node].name, pair.port);
    PairName name{.tensor = source,
                  .op = graph_.nodes[pair.node].op,
                  .in_loop = order_.frame[pair.node] != 0,
                  .holes = static_cast<std::uint32_t>(pair.swap_ins.size())};
    const std::string stem = std::string(kPrefix) + "swap_" + std::to_string(number);
    Node out = swap_node(stem + "_out", kSwapOutOp, pair, number);
    out.inputs = {source};
    out.add_int_attribute("holes", pair.swap_ins.size());
    for (std::size_t i = 0; i < pair.swap_ins.size(); ++i) {
      Node in = swap_node(stem + "_in_" + std::to_string(i), kSwapInOp, pair, number + i);
      in.inputs = {out.name};
      if (const auto tick = pair.swap_ins[i].tick) {
        in.inputs.push_back("^" + ticks_.at({order_.context[pair.node], *tick}));
      }
      for (const Use& use : pair.swap_ins[i].uses)
        graph_.nodes[use.node].inputs[use.input] = in.name;
      graph_.nodes.push_back(std::move(in));
    }
    graph_.nodes.push_back(std::move(out));
    return name;
  }

 private:
  // Each tick follows the one before and the heavy ops in between, so all up to its place.
  void add_clock(std::uint32_t context, const std::set<std::uint32_t>& places) {
    const std::vector<NodeIndex>& heavy = found_.heavy[context];
    std::uint32_t next = 0;
    std::string before;
    for (const std::uint32_t place : places) {
      Node tick{.name = std::string(kPrefix) + "tick_" + std::to_string(context) + "_" +
                        std::to_string(place),
                .op = "NoOp",
                .device = graph_.nodes[heavy[place]].device,
                .inputs = {},
                .rest = {}};
      if (!before.empty()) tick.inputs.push_back("^" + before);
      for (; next <= place; ++next) tick.inputs.push_back("^" + graph_.nodes[heavy[next]].name);
      before = tick.name;
      ticks_[{context, place}] = tick.name;
      graph_.nodes.push_back(std::move(tick));
    }
  }

  [[nodiscard]] Node swap_node(std::string name, std::string_view op, const SwapPair& pair,
                               std::uint64_t hole) const {
    Node node{.name = std::move(name),
              .op = std::string(op),
              .device = graph_.nodes[pair.node].device,
              .inputs = {},
              .rest = {}};
    node.add_type_attribute("T", pair.type);
    node.add_int_attribute("hole", hole);
    return node;
  }

  Graph& graph_;
  const GraphOrder& order_;
  const SwapPairs& found_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> ticks_;
};

void check_untouched(const Graph& graph) {
  const auto has_pair = [](const Node& node) {
    return node.op == kSwapOutOp || node.op == kSwapInOp;
  };
  if (std::ranges::any_of(graph.nodes, has_pair)) throw Doubt("it has pairs already");
  for (const Node& node : graph.nodes) {
    if (node.name.starts_with(kPrefix)) throw Doubt("it has a node named " + node.name);
  }
}

// The order of the new graph is found anew: that throws if an edge closed a cycle or left a frame.
Rewritten rewrite(Graph graph, const OpCatalogue& catalogue, const RewriteOptions& options) {
  check_untouched(graph);
  const GraphOrder order = order_graph(graph);
  const SwapPairs found = find_pairs(graph, order, catalogue, options.pairs);
  if (found.pairs.empty()) throw Doubt("no tensor waits long for its user");
  Rewritten rewritten;
  Rewriting rewriting(graph, order, found);
  rewriting.add_ticks();
  std::uint64_t hole = options.first_hole;
  for (const SwapPair& pair : found.pairs) {
    rewritten.pairs.push_back(rewriting.add_pair(pair, hole));
    hole += pair.swap_ins.size();
  }
  order_graph(graph);
  rewritten.graph = graph.serialize();
  return rewritten;
}

}  // namespace

RewriteResult rewrite_graph(std::string_view bytes, const OpCatalogue& catalogue,
                            const RewriteOptions& options) {
  RewriteResult result;
  try {
    Graph graph = Graph::parse(bytes);
    result.nodes = graph.nodes.size();
    result.rewritten = rewrite(std::move(graph), catalogue, options);
  } catch (const Doubt& doubt) {
    result.reason = doubt.what();
  } catch (const MalformedMessage& malformed) {
    result.reason = malformed.what();
  }
  return result;
}

}  // namespace spillway::tf
