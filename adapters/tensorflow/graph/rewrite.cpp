// SPDX-License-Identifier: Apache-2.0
#include "rewrite.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph_def.hpp"
#include "graph_order.hpp"
#include "ordering_edges.hpp"
#include "spillway/base/name_hash.hpp"
#include "wire.hpp"

namespace spillway::tf {
namespace {

class Rewriting {
 public:
  Rewriting(Graph& graph, const GraphOrder& order, const SwapPairs& found,
            const RewriteOptions& options)
      : graph_(graph), order_(order), found_(found), options_(options) {}

  // A row of ticks for each context in which a swap-in waits for one.
  std::vector<std::vector<std::string>> add_ticks() {
    std::map<std::uint32_t, std::set<std::uint32_t>> wanted;  // context to places in its row
    for (const SwapPair& pair : found_.pairs) {
      for (const SwapIn& swap_in : pair.swap_ins) {
        if (swap_in.last) wanted[order_.context[pair.node]];
        if (swap_in.tick) wanted[order_.context[pair.node]].insert(*swap_in.tick);
      }
    }
    std::vector<std::vector<std::string>> clocks;
    for (const auto& [context, places] : wanted) {
      if (options_.trigger == Trigger::kEdge) {
        add_row(context, places);
        continue;
      }
      clocks_[context] = options_.first_clock + clocks.size();
      clocks.push_back(add_clock(context));
    }
    return clocks;
  }

  PairName add_pair(const SwapPair& pair, std::uint64_t number) {
    const std::uint32_t context = order_.context[pair.node];
    const std::string source = to_input(graph_.nodes[pair.node].name, pair.port);
    PairName name{.tensor = source,
                  .node = graph_.nodes[pair.node].name,
                  .op = graph_.nodes[pair.node].op,
                  .in_loop = order_.frame[pair.node] != 0,
                  .early = names_of(pair.early),
                  .clock = clocks_.contains(context) ? clocks_.at(context) : 0,
                  .holes = {}};
    const std::string stem = std::string(kPrefix) + "swap_" + std::to_string(number);
    Node out = swap_node(stem + "_out", kSwapOutOp, pair, number);
    out.inputs = {source};
    out.add_int_attribute("holes", pair.swap_ins.size());
    for (std::size_t i = 0; i < pair.swap_ins.size(); ++i) {
      Node in = swap_node(stem + "_in_" + std::to_string(i), kSwapInOp, pair, number + i);
      in.inputs = {out.name};
      name.holes.push_back(hole_of(pair.swap_ins[i]));
      hold_back(in, pair.swap_ins[i], context, name.holes.back());
      for (const Use& use : pair.swap_ins[i].uses)
        graph_.nodes[use.node].inputs[use.input] = in.name;
      graph_.nodes.push_back(std::move(in));
    }
    graph_.nodes.push_back(std::move(out));
    return name;
  }

 private:
  [[nodiscard]] std::vector<std::string> names_of(const std::vector<NodeIndex>& nodes) const {
    std::vector<std::string> names;
    for (const NodeIndex node : nodes) names.push_back(graph_.nodes[node].name);
    return names;
  }

  [[nodiscard]] HoleName hole_of(const SwapIn& swap_in) const {
    HoleName hole;
    for (const Use& use : swap_in.uses) hole.users.push_back(graph_.nodes[use.node].name);
    if (options_.trigger == Trigger::kEdge) return hole;
    hole.due = swap_in.tick ? *swap_in.tick + 1 : 0;
    hole.latest = swap_in.last ? *swap_in.last + 1 : 0;
    return hole;
  }

  // A swap-in of a clock that is not there is due at once.
  void hold_back(Node& in, const SwapIn& swap_in, std::uint32_t context,
                 const HoleName& hole) const {
    const bool clocked = options_.trigger == Trigger::kClock && clocks_.contains(context);
    in.add_int_attribute("clock", clocked ? clocks_.at(context) : 0);
    in.add_int_attribute("due", hole.due);
    in.add_int_attribute("latest", hole.latest);
    if (options_.trigger == Trigger::kEdge && swap_in.tick) {
      in.inputs.push_back("^" + ticks_.at({context, *swap_in.tick}));
    }
  }

  [[nodiscard]] Node tick_node(std::uint32_t context, std::uint32_t place,
                               std::string_view op) const {
    return {.name = std::string(kPrefix) + "tick_" + std::to_string(context) + "_" +
                    std::to_string(place),
            .op = std::string(op),
            .device = graph_.nodes[found_.heavy[context][place]].device,
            .inputs = {},
            .rest = {}};
  }

  // Each tick follows the one before and the heavy ops in between, so all up to its place.
  void add_row(std::uint32_t context, const std::set<std::uint32_t>& places) {
    const std::vector<NodeIndex>& heavy = found_.heavy[context];
    std::uint32_t next = 0;
    std::string before;
    for (const std::uint32_t place : places) {
      Node tick = tick_node(context, place, "NoOp");
      if (!before.empty()) tick.inputs.push_back("^" + before);
      for (; next <= place; ++next) tick.inputs.push_back("^" + graph_.nodes[heavy[next]].name);
      before = tick.name;
      ticks_[{context, place}] = tick.name;
      graph_.nodes.push_back(std::move(tick));
    }
  }

  // The same with a tick for each heavy op. Returns their names.
  std::vector<std::string> add_clock(std::uint32_t context) {
    const std::vector<NodeIndex>& heavy = found_.heavy[context];
    std::vector<std::string> names;
    std::string before;
    for (std::uint32_t place = 0; place < heavy.size(); ++place) {
      names.push_back(graph_.nodes[heavy[place]].name);
      Node tick = tick_node(context, place, kTickOp);
      if (!before.empty()) tick.inputs.push_back("^" + before);
      tick.inputs.push_back("^" + names.back());
      tick.add_int_attribute("clock", clocks_.at(context));
      tick.add_int_attribute("time", place + 1);
      before = tick.name;
      graph_.nodes.push_back(std::move(tick));
    }
    return names;
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
  const RewriteOptions& options_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> ticks_;
  std::map<std::uint32_t, std::uint64_t> clocks_;  // of contexts
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

// Of what does not change between processes: attributes hold handles and addresses. No name has the
// byte that ends one here.
std::uint64_t signature_of(const Graph& graph) {
  std::uint64_t hash = hash_of_name("");
  const auto add = [&hash](std::string_view text) {
    hash = hash_of_name("\xff", hash_of_name(text, hash));
  };
  for (const Node& node : graph.nodes) {
    add(node.name);
    add(node.op);
    for (const std::string& input : node.inputs) add(input);
  }
  return hash;
}

// A function keeps ops that only have effects; a session's graph loses what no result needs, which
// ticks of a clock would be.
bool is_function(const Graph& graph) {
  return std::ranges::any_of(
      graph.nodes, [](const Node& node) { return node.op == "_Arg" || node.op == "_Retval"; });
}

// Barriers and the like make other levels, which pairs are then found by.
GraphOrder order_as_asked(Graph& graph, const RewriteOptions& options) {
  GraphOrder order = order_graph(graph);
  if (options.serialise_levels) {
    serialise_levels(graph, order, heavy_nodes(graph, order));
    order = order_graph(graph);
  }
  if (options.partition_nodes != 0) {
    put_barriers(graph, order, options.partition_nodes);
    order = order_graph(graph);
  }
  return order;
}

// The order of the new graph is found anew: that throws if an edge closed a cycle or left a frame.
Rewritten rewrite(Graph graph, const OpCatalogue& catalogue, RewriteOptions options) {
  check_untouched(graph);
  if (!is_function(graph)) options.trigger = Trigger::kEdge;
  const GraphOrder order = order_as_asked(graph, options);
  const SwapPairs found = find_pairs(graph, order, catalogue, options.pairs);
  if (found.pairs.empty()) throw Doubt("no tensor waits long for its user");
  Rewritten rewritten;
  rewritten.signature = signature_of(graph);
  Rewriting rewriting(graph, order, found, options);
  rewritten.clocks = rewriting.add_ticks();
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
