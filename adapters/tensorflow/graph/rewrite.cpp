// SPDX-License-Identifier: Apache-2.0
#include "rewrite.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "early_changes.hpp"
#include "graph_def.hpp"
#include "graph_order.hpp"
#include "ordering_edges.hpp"
#include "partial_sums.hpp"
#include "spillway/base/name_hash.hpp"
#include "twins.hpp"
#include "wire.hpp"

namespace spillway::tf {
namespace {

class Rewriting {
 public:
  Rewriting(Graph& graph, const GraphOrder& order, const SwapPairs& found,
            const RewriteOptions& options)
      : graph_(graph), order_(order), found_(found), options_(options) {
    std::uint64_t hole = options.first_hole;
    for (const SwapPair& pair : found.pairs) {
      first_holes_.push_back(hole);
      if (!pair.variable) hole += pair.swap_ins.size();
    }
  }

  std::vector<PairName> add_pairs() {
    // Cones are copied as they were, before any of their edges is cut.
    for (std::size_t i = 0; i < found_.pairs.size(); ++i) {
      if (found_.pairs[i].twin) add_twin(found_.pairs[i], last_hole(i), gated_for(i));
    }
    std::vector<PairName> names;
    for (std::size_t i = 0; i < found_.pairs.size(); ++i) {
      const SwapPair& pair = found_.pairs[i];
      if (pair.variable) {
        add_uses(pair);
      } else {
        names.push_back(add_pair(pair, first_holes_[i]));
      }
    }
    return names;
  }

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
    Node out = swap_node(stem_of("swap", number) + "_out", kSwapOutOp, pair);
    out.inputs = {source};
    out.add_int_attribute("hole", number);
    out.add_int_attribute("holes", pair.swap_ins.size());
    out.add_text_attribute("made_by", name.node);
    for (std::size_t i = 0; i < pair.swap_ins.size(); ++i) {
      const SwapIn& swap_in = pair.swap_ins[i];
      Node in = swap_node(swap_in_name(number, i), kSwapInOp, pair);
      in.add_int_attribute("hole", number + i);
      in.inputs = {out.name};
      name.holes.push_back(hole_of(swap_in));
      hold_back(in, swap_in, context, name.holes.back());
      std::string result = in.name;
      if (swap_in.gate) {
        in.inputs.front() = put_gate(pair, out.name, *swap_in.gate, number + i);
      } else if (pair.twin && i + 1 == pair.swap_ins.size()) {
        result = put_choice(pair, out.name, in, number + i);
      }
      put_before(swap_in, std::move(in), result);
    }
    graph_.nodes.push_back(std::move(out));
    if (pair.twin) describe_twin(*pair.twin, name);
    return name;
  }

  void add_uses(const SwapPair& pair) {
    const std::string source = to_input(graph_.nodes[pair.node].name, pair.port);
    for (std::size_t i = 0; i < pair.swap_ins.size(); ++i) {
      const std::string name =
          std::string(kPrefix) + "use_" + std::to_string(pair.node) + "_" + std::to_string(i);
      Node use = swap_node(name, kUseOp, pair);
      use.inputs = {source};
      if (pair.swap_ins[i].tick) {
        use.inputs.push_back("^" + ticks_.at({order_.context[pair.node], *pair.swap_ins[i].tick}));
      }
      const std::string result = use.name;
      put_before(pair.swap_ins[i], std::move(use), result);
    }
  }

  // An op that updates a variable where it is takes no read of it. Just before it, when all else
  // that it waits for is there, comes an op that says that the variable is used.
  void add_touches() {
    for (NodeIndex i = 0; i < order_.inputs.size(); ++i) {
      if (!needs_touch(graph_.nodes[i])) continue;
      Node touch{.name = std::string(kPrefix) + "touch_" + std::to_string(i),
                 .op = std::string(kTouchOp),
                 .device = graph_.nodes[i].device,
                 .inputs = {graph_.nodes[i].inputs.front()},
                 .rest = {}};
      std::set<std::string_view> others;
      for (const std::string& input : graph_.nodes[i].inputs) {
        others.insert(parse_input(input).node);
      }
      others.erase(parse_input(touch.inputs.front()).node);
      for (const std::string_view other : others) touch.inputs.push_back("^" + std::string(other));
      graph_.nodes[i].inputs.push_back("^" + touch.name);
      graph_.nodes.push_back(std::move(touch));
    }
  }

  // In each context with updates, an op that follows all of them.
  void add_rests() {
    std::map<std::uint32_t, Node> rests;
    for (NodeIndex i = 0; i < order_.inputs.size(); ++i) {
      if (!is_update_in_place(graph_.nodes[i].op) || !may_be_tied(graph_.nodes[i])) continue;
      const std::uint32_t context = order_.context[i];
      Node& rest = rests[context];
      rest.name = std::string(kPrefix) + "rest_" + std::to_string(context);
      rest.op = kRestOp;
      rest.device = graph_.nodes[i].device;
      rest.inputs.push_back("^" + graph_.nodes[i].name);
    }
    for (auto& [context, rest] : rests) graph_.nodes.push_back(std::move(rest));
  }

 private:
  static bool needs_touch(const Node& node) {
    return (node.op == "AssignAddVariableOp" || node.op == "AssignSubVariableOp") &&
           is_on_processor(node) && !node.inputs.empty();
  }

  void add_twin(const SwapPair& pair, std::uint64_t hole, const std::vector<std::string>& sources) {
    Node twin = swap_node(twin_stem(hole), kTwinOp, pair);
    twin.add_int_attribute("hole", hole);
    twin.add_int_attribute("ops", pair.twin->cone.size());
    twin.inputs = {put_cone(graph_, *pair.twin, pair.port, twin.name, sources)};
    graph_.nodes.push_back(std::move(twin));
  }

  // The swap-ins behind the gates of the pair's twin, one for each source.
  [[nodiscard]] std::vector<std::string> gated_for(std::size_t twin) const {
    std::vector<std::string> names;
    for (const Twin::Source& source : found_.pairs[twin].twin->sources) {
      const std::vector<SwapIn>& swap_ins = found_.pairs[source.pair].swap_ins;
      const auto gated = std::ranges::find(swap_ins, std::optional(twin), &SwapIn::gate);
      names.push_back(swap_in_name(first_holes_[source.pair],
                                   static_cast<std::size_t>(gated - swap_ins.begin())));
    }
    return names;
  }

  [[nodiscard]] std::vector<std::string> names_of(const std::vector<NodeIndex>& nodes) const {
    std::vector<std::string> names;
    names.reserve(nodes.size());
    for (const NodeIndex node : nodes) names.push_back(graph_.nodes[node].name);
    return names;
  }

  [[nodiscard]] HoleName hole_of(const SwapIn& swap_in) const {
    HoleName hole;
    for (const Use& use : swap_in.uses) hole.users.push_back(graph_.nodes[use.node].name);
    hole.gate = swap_in.gate;
    if (options_.trigger == Trigger::kEdge) return hole;
    hole.due = swap_in.tick ? *swap_in.tick + 1 : 0;
    hole.latest = swap_in.last ? *swap_in.last + 1 : 0;
    return hole;
  }

  static std::string stem_of(std::string_view kind, std::uint64_t hole) {
    return std::string(kPrefix) + std::string(kind) + "_" + std::to_string(hole);
  }
  static std::string swap_in_name(std::uint64_t first_hole, std::size_t number) {
    return stem_of("swap", first_hole) + "_in_" + std::to_string(number);
  }
  static std::string twin_stem(std::uint64_t hole) { return stem_of("twin", hole); }

  void describe_twin(const Twin& twin, PairName& name) const {
    name.cone = names_of(twin.cone);
    for (const Twin::Source& source : twin.sources) name.sources.push_back(source.pair);
  }

  [[nodiscard]] std::uint64_t last_hole(std::size_t pair) const {
    return first_holes_[pair] + found_.pairs[pair].swap_ins.size() - 1;
  }

  // The token comes through where the twin of pair `twin` is to run.
  std::string put_gate(const SwapPair& pair, const std::string& token, std::size_t twin,
                       std::uint64_t hole) {
    return put_switch("gate", pair, token, last_hole(twin), hole) + ":1";
  }

  // The swap-in has no token where the twin runs; users get what there is of the two.
  std::string put_choice(const SwapPair& pair, const std::string& token, Node& in,
                         std::uint64_t hole) {
    Node asks = swap_node(stem_of("recomputes", hole), kRecomputesOp, pair);
    asks.add_int_attribute("hole", hole);
    asks.inputs = {token};
    graph_.nodes.push_back(std::move(asks));
    in.inputs.front() = put_switch("choose", pair, token, hole, hole);
    Node merge{.name = stem_of("merge", hole),
               .op = "Merge",
               .device = in.device,
               .inputs = {in.name, twin_stem(hole)},
               .rest = {}};
    merge.add_type_attribute("T", pair.type);
    merge.add_int_attribute("N", 2);
    graph_.nodes.push_back(std::move(merge));
    return stem_of("merge", hole);
  }

  // Switches the token, by the answer for the hole `asked`.
  std::string put_switch(std::string_view kind, const SwapPair& pair, const std::string& token,
                         std::uint64_t asked, std::uint64_t hole) {
    Node node{.name = stem_of(kind, hole),
              .op = "Switch",
              .device = graph_.nodes[pair.node].device,
              .inputs = {token, stem_of("recomputes", asked)},
              .rest = {}};
    node.add_type_attribute("T", pair.type);
    graph_.nodes.push_back(std::move(node));
    return stem_of(kind, hole);
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
      ticks_[{context, place}] = tick.name;
      graph_.nodes.push_back(std::move(tick));
    }
    return names;
  }

  // Whoever used what `node` has waited for takes it from `result`.
  void put_before(const SwapIn& swap_in, Node node, const std::string& result) {
    for (const Use& use : swap_in.uses) graph_.nodes[use.node].inputs[use.input] = result;
    graph_.nodes.push_back(std::move(node));
  }

  [[nodiscard]] Node swap_node(std::string name, std::string_view op, const SwapPair& pair) const {
    Node node{.name = std::move(name),
              .op = std::string(op),
              .device = graph_.nodes[pair.node].device,
              .inputs = {},
              .rest = {}};
    node.add_type_attribute("T", pair.type);
    return node;
  }

  Graph& graph_;
  const GraphOrder& order_;
  const SwapPairs& found_;
  const RewriteOptions& options_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> ticks_;
  std::map<std::uint32_t, std::uint64_t> clocks_;  // of contexts
  std::vector<std::uint64_t> first_holes_;         // of pairs
};

void check_untouched(const Graph& graph) {
  const auto has_pair = [](const Node& node) {
    return node.op == kSwapOutOp || node.op == kSwapInOp || node.op == kUseOp ||
           node.op == kTouchOp || node.op == kConstantOp;
  };
  if (std::ranges::any_of(graph.nodes, has_pair)) throw Doubt(std::string(kHasPairs));
  for (const Node& node : graph.nodes) {
    if (node.name.starts_with(kPrefix)) throw Doubt("it has a node named " + node.name);
  }
}

// Hashes what does not change between processes; attributes hold handles and addresses. No name has
// the byte that ends one here.
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
GraphOrder order_as_asked(Graph& graph, GraphOrder order, const EarlyChanges& early,
                          const RewriteOptions& options, Rewritten& rewritten) {
  if (options.serialise_levels) {
    serialise_levels(graph, order, heavy_nodes(graph, order), early);
    order = order_graph(graph);
  }
  if (options.partition_nodes != 0) {
    rewritten.partitions = put_barriers(graph, order, options.partition_nodes, early);
    order = order_graph(graph);
  }
  if (options.order_updates) {
    order_updates(graph, order, early);
    order = order_graph(graph);
  }
  return order;
}

void replace_constants(Graph& graph, std::uint64_t smallest) {
  for (Node& node : graph.nodes) {
    if (node.op != "Const" || smallest == 0 || !is_on_processor(node)) continue;
    const auto type = node.attribute("dtype");
    const auto value = node.attribute("value");
    if (!type || !value || !is_plain(type_of(*type).value_or(0))) continue;
    // As long as its bytes, unless they are all equal.
    if (value->size() >= smallest) node.op = kConstantOp;
  }
}

std::string_view why_no_pairs(const Graph& graph, const GraphOrder& order,
                              const OpCatalogue& catalogue, PairOptions options,
                              const EarlyChanges& early) {
  const bool may_be_on_card =
      options.placement == Placement::kProcessor && std::ranges::any_of(graph.nodes, is_on_card);
  if (!may_be_on_card) return kNothingWaits;
  options.placement = Placement::kCard;
  return find_pairs(graph, order, catalogue, options, early).pairs.empty() ? kNothingWaits
                                                                           : kRunsOnCard;
}

// The order of the new graph is found anew: that throws if an edge closed a cycle or left a frame.
Rewritten rewrite(Graph graph, const OpCatalogue& catalogue, RewriteOptions options) {
  check_untouched(graph);
  replace_constants(graph, options.smallest_constant);
  if (options.pairs.placement == Placement::kProcessor) take_sums_apart(graph);
  if (!is_function(graph)) options.trigger = Trigger::kEdge;
  Rewritten rewritten;
  GraphOrder own_order = order_graph(graph);
  const EarlyChanges early(graph, own_order);
  const GraphOrder order = order_as_asked(graph, std::move(own_order), early, options, rewritten);
  SwapPairs found = find_pairs(graph, order, catalogue, options.pairs, early);
  if (found.pairs.empty()) {
    throw Doubt(std::string(why_no_pairs(graph, order, catalogue, options.pairs, early)));
  }
  // Their places are then those among the pairs that are moved.
  std::stable_partition(found.pairs.begin(), found.pairs.end(),
                        [](const SwapPair& pair) { return !pair.variable; });
  if (options.twins) find_twins(graph, order, {.ahead = options.pairs.ahead}, found);
  rewritten.signature = signature_of(graph);
  Rewriting rewriting(graph, order, found, options);
  rewritten.clocks = rewriting.add_ticks();
  rewritten.pairs = rewriting.add_pairs();
  if (options.pairs.placement == Placement::kProcessor) rewriting.add_touches();
  if (options.order_updates) rewriting.add_rests();
  order_graph(graph);
  rewritten.graph = graph.serialize();
  return rewritten;
}

std::string sample_of(const Graph& graph) {
  const auto heavy =
      std::ranges::find_if(graph.nodes, [](const Node& node) { return is_heavy(node.op); });
  if (heavy != graph.nodes.end()) return heavy->name;
  return graph.nodes.empty() ? std::string() : graph.nodes.front().name;
}

}  // namespace

RewriteResult rewrite_graph(std::string_view bytes, const OpCatalogue& catalogue,
                            const RewriteOptions& options) {
  RewriteResult result;
  try {
    Graph graph = Graph::parse(bytes);
    result.nodes = graph.nodes.size();
    result.sample = sample_of(graph);
    result.rewritten = rewrite(std::move(graph), catalogue, options);
  } catch (const Doubt& doubt) {
    result.reason = doubt.what();
  } catch (const MalformedMessage& malformed) {
    result.reason = malformed.what();
  }
  return result;
}

}  // namespace spillway::tf
