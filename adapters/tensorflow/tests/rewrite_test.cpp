// SPDX-License-Identifier: Apache-2.0
// Graphs with pairs compute what they computed.
#include "rewrite.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "control_context.hpp"
#include "graph_builder.hpp"
#include "graph_order.hpp"
#include "interpreter.hpp"
#include "wire.hpp"

namespace spillway::tf {
namespace {

using testing::describe_op;
using ::testing::ElementsAre;
using testing::Firing;
using testing::GraphBuilder;
using ::testing::HasSubstr;
using testing::Interpreter;
using testing::node_named;
using testing::RandomGraph;
using testing::Value;
using testing::with_latest_edges;
using testing::with_result;

RewriteResult rewrite(const Graph& graph, const PairOptions& options, std::uint64_t first = 0) {
  return rewrite_graph(graph.serialize(), describe_op, {.pairs = options, .first_hole = first});
}

// make -> m1 -> ... -> m6 -> user, and make -> user.
GraphBuilder chain() {
  GraphBuilder builder;
  builder.add("source", "Const");
  builder.add("make", "MatMul", {"source"});
  std::string before = "make";
  for (int i = 1; i <= 6; ++i) {
    before = builder.add("m" + std::to_string(i), "MatMul", {before});
  }
  builder.add("user", "MatMul", {before, "make"});
  return builder;
}

TEST(RewriteTest, PutsAPairOnALongEdgeAndNoneOnShortOnes) {
  const RewriteResult result = rewrite(chain().graph, {.distance = 6, .ahead = 2}, 40);
  ASSERT_TRUE(result.rewritten) << result.reason;
  ASSERT_EQ(result.rewritten->pairs.size(), 1U);
  EXPECT_EQ(result.rewritten->pairs[0].tensor, "make");
  const Graph graph = Graph::parse(result.rewritten->graph);
  EXPECT_THAT(node_named(graph, "m1").inputs, ElementsAre("make"));
  EXPECT_THAT(node_named(graph, "user").inputs, ElementsAre("m6", "spillway/swap_40_in_0"));
  // Before user come make and m1 to m6: two ahead of it is m5, the sixth of its context.
  EXPECT_THAT(node_named(graph, "spillway/swap_40_in_0").inputs,
              ElementsAre("spillway/swap_40_out", "^spillway/tick_0_5"));
  EXPECT_THAT(node_named(graph, "spillway/tick_0_5").inputs,
              ElementsAre("^make", "^m1", "^m2", "^m3", "^m4", "^m5"));
  EXPECT_EQ(int_of(*node_named(graph, "spillway/swap_40_out").attribute("hole")), 40);
  EXPECT_EQ(int_of(*node_named(graph, "spillway/swap_40_out").attribute("holes")), 1);
  EXPECT_EQ(text_of(*node_named(graph, "spillway/swap_40_out").attribute("made_by")), "make");
}

TEST(RewriteTest, LeavesAGraphOfShortEdgesAsItWas) {
  const RewriteResult result = rewrite(chain().graph, {.distance = 7});
  EXPECT_FALSE(result.rewritten);
  EXPECT_THAT(result.reason, HasSubstr("no tensor waits"));
}

TEST(RewriteTest, LeavesToAGradientTheForwardOpThatOneDNNLooksFor) {
  struct Case {
    std::string forward, gradient;
    std::size_t input;
  };
  for (const auto& [forward, gradient, input] :
       {Case{"MaxPool", "MaxPoolGrad", 1}, Case{"MaxPool3D", "MaxPool3DGrad", 1},
        Case{"LRN", "LRNGrad", 2}}) {
    GraphBuilder builder = chain();
    builder.add("forward", forward, {"make"});
    std::string before = "forward";
    for (int i = 1; i <= 8; ++i) {
      before = builder.add("after" + std::to_string(i), "MatMul", {before});
    }
    std::vector<std::string> inputs(3, before);
    inputs[input] = "forward";
    inputs[0] = "make";
    builder.add("gradient", gradient, inputs);
    builder.add("other", "MatMul", {before, "forward"});
    const RewriteResult result = rewrite(builder.graph, {.distance = 6});
    ASSERT_TRUE(result.rewritten) << result.reason;
    const Graph graph = Graph::parse(result.rewritten->graph);
    EXPECT_EQ(node_named(graph, "gradient").inputs[input], "forward") << forward;
    // It stays for the gradient, so its other user needs no copy.
    EXPECT_EQ(node_named(graph, "other").inputs[1], "forward") << forward;
    EXPECT_THAT(node_named(graph, "gradient").inputs[0], HasSubstr("spillway/swap_"));
  }
}

TEST(RewriteTest, LateUsersCloseToEachOtherShareASwapIn) {
  GraphBuilder builder = chain();
  builder.add("later", "MatMul", {"user", "make"});
  builder.add("much_later", "MatMul",
              {builder.add("b", "Mul", {builder.add("a", "Mul", {"later"})}), "make"});
  const auto swap_ins = [&](std::uint32_t group) {
    const auto result = rewrite(builder.graph, {.distance = 6, .group = group});
    const Graph graph = Graph::parse(result.rewritten->graph);
    return std::ranges::count(graph.nodes, kSwapInOp, &Node::op);
  };
  EXPECT_EQ(swap_ins(0), 3);
  EXPECT_EQ(swap_ins(1), 2);
  EXPECT_EQ(swap_ins(4), 1);
}

TEST(RewriteTest, LeavesWhatOthersHoldAndWhatIsNotPlainBytes) {
  for (const std::string op : {"Const", "_ReadVariablesOp", "_Arg", "Text"}) {
    GraphBuilder builder = chain();
    builder.node("make").op = op;
    EXPECT_FALSE(rewrite(builder.graph, {.distance = 6}).rewritten) << op;
  }
  GraphBuilder alias = chain();
  alias.node("make").op = "Reshape";  // of a constant
  EXPECT_FALSE(rewrite(alias.graph, {.distance = 6}).rewritten);
}

TEST(RewriteTest, ALateUserOfAVariableSaysThatItUsesIt) {
  GraphBuilder builder = chain();
  builder.node("make").op = "ReadVariableOp";
  const RewriteResult result = rewrite(builder.graph, {.distance = 6, .ahead = 2});
  ASSERT_TRUE(result.rewritten) << result.reason;
  EXPECT_TRUE(result.rewritten->pairs.empty());
  const Graph graph = Graph::parse(result.rewritten->graph);
  EXPECT_EQ(std::ranges::count(graph.nodes, kSwapOutOp, &Node::op), 0);
  const std::string use = node_named(graph, "user").inputs[1];
  EXPECT_EQ(node_named(graph, use).op, kUseOp);
  EXPECT_THAT(node_named(graph, use).inputs, ElementsAre("make", "^spillway/tick_0_4"));
}

TEST(RewriteTest, WithAClockAUseOfAVariableFollowsItsTick) {
  GraphBuilder builder = chain();
  builder.node("make").op = "ReadVariableOp";
  builder.add("result", "_Retval", {"user"});
  const RewriteResult result =
      rewrite_graph(builder.graph.serialize(), describe_op,
                    {.pairs = {.distance = 6, .ahead = 2}, .trigger = Trigger::kClock});
  ASSERT_TRUE(result.rewritten) << result.reason;
  const Graph graph = Graph::parse(result.rewritten->graph);
  const Node& use = node_named(graph, node_named(graph, "user").inputs[1]);
  EXPECT_EQ(use.op, kUseOp);
  ASSERT_EQ(use.inputs.size(), 2U);
  const Node& tick = node_named(graph, use.inputs[1].substr(1));
  EXPECT_EQ(tick.op, kTickOp);
  EXPECT_EQ(int_of(*tick.attribute("time")), 5) << "m1 to m6 come before user: two ahead is m5";
}

TEST(RewriteTest, AnUpdateInPlaceIsToldOfWhenAllItWaitsForIsThere) {
  GraphBuilder builder = chain();
  builder.add("variable", "_Arg");
  builder.add("update", "AssignSubVariableOp", {"variable", "user", "^m1", "^user"});
  const RewriteResult result = rewrite(builder.graph, {.distance = 6});
  ASSERT_TRUE(result.rewritten) << result.reason;
  const Graph graph = Graph::parse(result.rewritten->graph);
  const std::string touch = node_named(graph, "update").inputs.back().substr(1);
  EXPECT_EQ(node_named(graph, touch).op, kTouchOp);
  EXPECT_THAT(node_named(graph, touch).inputs, ElementsAre("variable", "^m1", "^user"));
}

TEST(RewriteTest, WhereUpdatesAreOrderedARestFollowsAllOfAContext) {
  GraphBuilder builder = chain();
  builder.add("variable", "_Arg");
  builder.add("first", "AssignSubVariableOp", {"variable", "user"});
  builder.add("second", "AssignAddVariableOp", {"variable", "user", "^first"});
  const RewriteResult result = rewrite_graph(builder.graph.serialize(), describe_op,
                                             {.pairs = {.distance = 6}, .order_updates = true});
  ASSERT_TRUE(result.rewritten) << result.reason;
  const Graph graph = Graph::parse(result.rewritten->graph);
  const auto rest = std::ranges::find(graph.nodes, kRestOp, &Node::op);
  ASSERT_NE(rest, graph.nodes.end());
  EXPECT_THAT(rest->inputs, ElementsAre("^first", "^second"));
}

TEST(RewriteTest, ALargeConstantBecomesOursAndSaysWhenItIsUsed) {
  GraphBuilder builder = chain();
  Node& make = builder.node("make");
  make.op = "Const";
  make.inputs.clear();
  make.add_type_attribute("dtype", kFloat);
  std::string value;  // a message AttrValue with a tensor of 100 bytes
  append_bytes_field(value, 8, std::string(100, 'x'));
  std::string entry;
  append_bytes_field(entry, 1, "value");
  append_bytes_field(entry, 2, value);
  append_bytes_field(make.rest, 5, entry);
  const auto rewrite_from = [&builder](std::uint64_t smallest) {
    return rewrite_graph(builder.graph.serialize(), describe_op,
                         {.pairs = {.distance = 6}, .smallest_constant = smallest});
  };
  EXPECT_FALSE(rewrite_from(0).rewritten);
  EXPECT_FALSE(rewrite_from(1000).rewritten);
  const RewriteResult result = rewrite_from(100);
  ASSERT_TRUE(result.rewritten) << result.reason;
  const Graph graph = Graph::parse(result.rewritten->graph);
  EXPECT_EQ(node_named(graph, "make").op, kConstantOp);
  EXPECT_TRUE(node_named(graph, "make").attribute("value"));
  EXPECT_EQ(node_named(graph, node_named(graph, "user").inputs[1]).op, kUseOp);
  builder.node("make").device = "/device:GPU:0";
  EXPECT_FALSE(rewrite_from(100).rewritten);
}

TEST(RewriteTest, DoubtsLeaveTheGraphAndSayWhy) {
  const auto reason = [](const Graph& graph) {
    const RewriteResult result = rewrite(graph, {.distance = 2});
    EXPECT_FALSE(result.rewritten);
    EXPECT_EQ(result.sample, "make");
    return result.reason;
  };
  GraphBuilder cycle = chain();
  cycle.node("m1").inputs.push_back("^m5");
  EXPECT_THAT(reason(cycle.graph), HasSubstr("cycle"));
  GraphBuilder unknown = chain();
  unknown.node("m1").inputs.push_back("nobody");
  EXPECT_THAT(reason(unknown.graph), HasSubstr("nobody"));
  GraphBuilder twice = chain();
  twice.add("m1", "Mul");
  EXPECT_THAT(reason(twice.graph), HasSubstr("two nodes are named m1"));
  GraphBuilder frames = chain();
  frames.node("m3").inputs.push_back(frames.add_enter("f", "m1"));
  EXPECT_THAT(reason(frames.graph), HasSubstr("mixes frames"));
  GraphBuilder named = chain();
  named.add("spillway/mine", "Mul");
  EXPECT_THAT(reason(named.graph), HasSubstr("spillway/mine"));
  EXPECT_FALSE(rewrite_graph("no graph", describe_op, {}).rewritten);
}

TEST(RewriteTest, AGraphWithPairsIsNotRewrittenAgain) {
  const RewriteResult once = rewrite(chain().graph, {.distance = 2});
  ASSERT_TRUE(once.rewritten);
  const RewriteResult twice =
      rewrite_graph(once.rewritten->graph, describe_op, {.pairs = {.distance = 2}});
  EXPECT_FALSE(twice.rewritten);
  EXPECT_THAT(twice.reason, HasSubstr("already"));
}

TEST(RewriteTest, NodesOfAnotherDeviceAreNotTied) {
  GraphBuilder builder = chain();
  builder.node("make").device = "/device:CPU:0";
  builder.node("user").device = "/device:CPU:1";
  EXPECT_FALSE(rewrite(builder.graph, {.distance = 6}).rewritten);
  builder.node("user").device = "/device:CPU:0";
  EXPECT_TRUE(rewrite(builder.graph, {.distance = 6}).rewritten);
}

TEST(RewriteTest, ForAProcessorAGraphOnACardIsLeftAndThatIsSaid) {
  GraphBuilder builder = chain();
  for (Node& node : builder.graph.nodes) node.device = "/device:GPU:0";
  const RewriteResult left = rewrite(builder.graph, {.distance = 6});
  EXPECT_FALSE(left.rewritten);
  EXPECT_EQ(left.reason, kRunsOnCard);
  EXPECT_EQ(rewrite(builder.graph, {.distance = 60}).reason, kNothingWaits);
  builder.node("user").device = "/device:CPU:0";
  EXPECT_EQ(rewrite(builder.graph, {.distance = 6}).reason, kNothingWaits);
}

// chain() on devices of these names.
Graph chain_on(const std::string& device, const std::string& of_user) {
  GraphBuilder builder = chain();
  for (Node& node : builder.graph.nodes) node.device = device;
  builder.node("user").device = of_user;
  return std::move(builder.graph);
}

const PairOptions kOnCard{.distance = 6, .ahead = 2, .placement = Placement::kCard};

TEST(RewriteTest, OnACardAllThatIsPutInIsOnThatCard) {
  const std::string card = "/job:localhost/replica:0/task:0/device:GPU:0";
  for (const std::string& name : {card, std::string("/gpu:0"), std::string("GPU:0")}) {
    const RewriteResult result = rewrite(chain_on(name, name), kOnCard);
    ASSERT_TRUE(result.rewritten) << name << ": " << result.reason;
    const Graph graph = Graph::parse(result.rewritten->graph);
    for (const Node& node : graph.nodes) EXPECT_EQ(node.device, name) << node.name;
    EXPECT_THAT(node_named(graph, "user").inputs, ElementsAre("m6", "spillway/swap_0_in_0"));
    EXPECT_THAT(node_named(graph, "spillway/swap_0_in_0").inputs,
                ElementsAre("spillway/swap_0_out", "^spillway/tick_0_5"));
  }
}

TEST(RewriteTest, ForACardNothingIsPutInOnOtherDevices) {
  for (const std::string name : {"", "/device:CPU:0", "/device:GPU:1", "/device:XLA_GPU:0",
                                 "/device:GPU:00", "0", "/device:TPU:0"}) {
    EXPECT_FALSE(rewrite(chain_on(name, name), kOnCard).rewritten) << name;
  }
}

TEST(RewriteTest, AnEdgeThatLeavesTheCardStaysAsItIs) {
  const std::string card = "/device:GPU:0";
  EXPECT_FALSE(rewrite(chain_on(card, "/device:CPU:0"), kOnCard).rewritten);
  EXPECT_FALSE(rewrite(chain_on("/device:CPU:0", card), kOnCard).rewritten);
}

TEST(RewriteTest, OnACardVariablesAndTheirUpdatesAreNotTouched) {
  const std::string card = "/device:GPU:0";
  GraphBuilder builder;
  builder.graph = chain_on(card, card);
  builder.add("variable", "_Arg");
  builder.add("update", "AssignSubVariableOp", {"variable", "user"});
  builder.add("read", "ReadVariableOp", {"variable"});
  builder.node("read").device = card;
  builder.add("late", "MatMul", {"user", "read"});
  builder.node("late").device = card;
  const RewriteResult result = rewrite(builder.graph, kOnCard);
  ASSERT_TRUE(result.rewritten) << result.reason;
  const Graph graph = Graph::parse(result.rewritten->graph);
  EXPECT_THAT(node_named(graph, "update").inputs, ElementsAre("variable", "user"));
  EXPECT_THAT(node_named(graph, "late").inputs, ElementsAre("user", "read"));
}

// TensorFlow keeps those in the machine's memory.
TEST(RewriteTest, OnACardInt32GetsNoPair) {
  const auto describe_int32 = [](std::string_view op) {
    std::string description = describe_op(op);
    std::string output;
    append_bytes_field(output, 1, "y");
    append_varint_field(output, 3, kInt32);
    std::string result;
    append_bytes_field(result, 1, op);
    append_bytes_field(result, 3, output);
    return op == "Integers" ? result : description;
  };
  GraphBuilder builder;
  builder.graph = chain_on("/device:GPU:0", "/device:GPU:0");
  const auto rewritten = [&](Placement placement) {
    PairOptions options = kOnCard;
    options.placement = placement;
    return rewrite_graph(builder.graph.serialize(), describe_int32, {.pairs = options})
        .rewritten.has_value();
  };
  EXPECT_TRUE(rewritten(Placement::kCard));
  builder.node("make").op = "Integers";
  EXPECT_FALSE(rewritten(Placement::kCard));
  for (Node& node : builder.graph.nodes) node.device = "/device:CPU:0";
  EXPECT_TRUE(rewritten(Placement::kProcessor));
}

TEST(RewriteTest, OnACardAMaxPoolGradientMayWaitForItsForwardOp) {
  GraphBuilder builder;
  builder.graph = chain_on("/device:GPU:0", "/device:GPU:0");
  builder.node("user").op = "MaxPoolGrad";
  EXPECT_TRUE(rewrite(builder.graph, kOnCard).rewritten);
}

// A node behind a Merge of two branches runs whichever is taken; one inside a branch does not.
TEST(GraphOrderTest, ContextsAreFramesAndBranches) {
  GraphBuilder builder;
  builder.add("p", "Mul");
  builder.add("x", "Mul");
  builder.add("s", "Switch", {"x", "p"});
  builder.add("yes", "Mul", {"s:1"});
  builder.add("no", "Mul", {"s"});
  builder.add("m", "Merge", {"no", "yes"});
  builder.add("after", "Mul", {"m"});
  builder.add("odd", "Merge", {"no", "x"});
  builder.add("after_odd", "Mul", {"odd"});
  const GraphOrder order = order_graph(builder.graph);
  const auto context = [&](const std::string& name) {
    return order
        .context[static_cast<std::size_t>(&builder.node(name) - builder.graph.nodes.data())];
  };
  EXPECT_EQ(context("after"), context("x"));
  EXPECT_NE(context("yes"), context("no"));
  EXPECT_NE(context("yes"), context("x"));
  EXPECT_NE(context("after_odd"), context("x"));
  EXPECT_NE(context("after_odd"), context("no"));
}

// Each edge that was cut is longer than the distance, and swap-ins wait for nodes of their level or
// below only.
void check_distances(const Graph& before, const Graph& after, const PairOptions& options) {
  const GraphOrder order = order_graph(before);
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < before.nodes.size(); ++i) index[before.nodes[i].name] = i;
  for (std::size_t i = 0; i < before.nodes.size(); ++i) {
    ASSERT_EQ(before.nodes[i].inputs.size(), after.nodes[i].inputs.size());
    for (std::size_t k = 0; k < before.nodes[i].inputs.size(); ++k) {
      if (after.nodes[i].inputs[k] == before.nodes[i].inputs[k]) continue;
      const Edge& edge = order.inputs[i][k];
      EXPECT_GT(order.level[i], order.level[edge.from] + options.distance);
      EXPECT_EQ(order.context[i], order.context[edge.from]);
      EXPECT_EQ(order.frame[i], order.frame[edge.from]);
      const Node& swap_in = node_named(after, after.nodes[i].inputs[k]);
      EXPECT_EQ(node_named(after, swap_in.inputs[0]).inputs[0], before.nodes[i].inputs[k]);
      if (swap_in.inputs.size() == 1) continue;
      for (const std::string& heavy : node_named(after, swap_in.inputs[1].substr(1)).inputs) {
        const auto found = index.find(heavy.substr(1));
        if (found != index.end()) {
          EXPECT_LT(order.level[found->second], order.level[i]);
          EXPECT_EQ(order.context[found->second], order.context[i]);
        }
      }
    }
  }
}

using Log = std::map<Firing, Value>;

std::string text_of(const Firing& firing) {
  const auto& [node, frame, iteration] = firing;
  return node + " in " + frame + ", " + std::to_string(iteration);
}

std::string first_difference(const Log& found, const Log& expected) {
  for (const auto& [firing, value] : expected) {
    const auto same = found.find(firing);
    if (same == found.end()) return text_of(firing) + " did not run";
    if (same->second != value) return text_of(firing) + " put out something else";
  }
  return found.size() == expected.size() ? "" : "more ran than before";
}

TEST(RewriteTest, RandomGraphsComputeTheSameInAnyOrder) {
  std::size_t pairs = 0;
  std::size_t in_frames = 0;
  std::size_t dead = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph before = RandomGraph(seed).make(20 + seed % 60);
    const PairOptions options{.distance = static_cast<std::uint32_t>(seed % 9),
                              .group = static_cast<std::uint32_t>(seed % 4),
                              .ahead = 1 + static_cast<std::uint32_t>(seed % 5)};
    const RewriteResult result = rewrite(before, options);
    if (!result.rewritten) {
      EXPECT_THAT(result.reason, HasSubstr("no tensor waits"));
      continue;
    }
    const Graph after = Graph::parse(result.rewritten->graph);
    check_distances(before, after, options);
    const Log expected = Interpreter(before, seed).execute();
    Log found = Interpreter(after, seed + 1).execute();
    std::erase_if(found, [&](const auto& firing) {
      const std::string& name = std::get<0>(firing.first);
      const bool ours = name.starts_with("spillway/");
      if (ours && name.find("_in_") != std::string::npos) {
        in_frames += std::get<1>(firing.first).empty() ? 0U : 1U;
        dead += firing.second.dead ? 1U : 0U;
      }
      return ours;
    });
    ASSERT_EQ(first_difference(found, expected), "");
    pairs += result.rewritten->pairs.size();
  }
  EXPECT_GT(pairs, 2000U);
  EXPECT_GT(in_frames, 200U) << "too few pairs in loops to prove anything";
  EXPECT_GT(dead, 100U) << "too few pairs in branches to prove anything";
}

// Due times refer to heavy ops of lower levels than the users, in the row of the pair's clock.
void check_times(const Graph& ordered, const Rewritten& rewritten, std::uint64_t first_clock) {
  const GraphOrder order = order_graph(ordered);
  std::map<std::string, NodeIndex> index;
  for (NodeIndex i = 0; i < ordered.nodes.size(); ++i) index[ordered.nodes[i].name] = i;
  for (const PairName& pair : rewritten.pairs) {
    for (const HoleName& hole : pair.holes) {
      EXPECT_LE(hole.due, hole.latest);
      if (hole.latest == 0) continue;
      const auto& clock = rewritten.clocks.at(pair.clock - first_clock);
      for (const std::string& user : hole.users) {
        EXPECT_EQ(order.context[index.at(user)], order.context[index.at(pair.node)]);
        for (std::uint32_t i = 0; i < hole.latest; ++i) {
          EXPECT_LT(order.level[index.at(clock[i])], order.level[index.at(user)]);
          EXPECT_FALSE(clock[i] == user);
        }
      }
    }
  }
}

TEST(RewriteTest, AGraphThatIsNoFunctionHasEdgesInPlaceOfAClock) {
  GraphBuilder builder = chain();
  const auto ticks = [&builder] {
    const auto result = rewrite_graph(builder.graph.serialize(), describe_op,
                                      {.pairs = {.distance = 6}, .trigger = Trigger::kClock});
    return std::ranges::count(Graph::parse(result.rewritten->graph).nodes, kTickOp, &Node::op);
  };
  EXPECT_EQ(ticks(), 0);
  builder.add("result", "_Retval", {"user"});
  EXPECT_EQ(ticks(), 8) << "make, m1 to m6, user";
}

TEST(RewriteTest, WithClocksBarriersAndSerialLevelsRandomGraphsComputeTheSame) {
  std::size_t timed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph before = with_result(RandomGraph(seed).make(20 + seed % 60));
    for (Node& node : before.nodes) {
      if (node.op == "Cast" && seed % 4 == 0) node.op = "ReadVariableOp";
    }
    const RewriteOptions options{.pairs = {.distance = static_cast<std::uint32_t>(seed % 9),
                                           .group = static_cast<std::uint32_t>(seed % 4),
                                           .ahead = 1 + static_cast<std::uint32_t>(seed % 3)},
                                 .trigger = Trigger::kClock,
                                 .first_clock = seed,
                                 .serialise_levels = seed % 3 == 1,
                                 .partition_nodes = seed % 2 == 0 ? 0 : 1 + seed % 7};
    const RewriteResult result = rewrite_graph(before.serialize(), describe_op, options);
    if (!result.rewritten) {
      EXPECT_THAT(result.reason, HasSubstr("no tensor waits"));
      continue;
    }
    const Graph after = Graph::parse(result.rewritten->graph);
    Graph ordered = after;  // what is tied, without pairs
    std::erase_if(ordered.nodes, [](const Node& node) {
      return node.name.starts_with("spillway/") && node.op != "NoOp";
    });
    for (std::size_t i = 0; i < before.nodes.size(); ++i) {
      std::ranges::copy(before.nodes[i].inputs, ordered.nodes[i].inputs.begin());
    }
    check_times(ordered, *result.rewritten, seed);
    const Log expected = Interpreter(before, seed).execute();
    for (const Graph& graph : {after, with_latest_edges(after)}) {
      const Log found = without_ours(Interpreter(graph, seed + 1).execute());
      ASSERT_EQ(first_difference(found, expected), "");
    }
    for (const PairName& pair : result.rewritten->pairs) {
      for (const HoleName& hole : pair.holes) timed += hole.latest == 0 ? 0U : 1U;
    }
  }
  EXPECT_GT(timed, 1000U);
}

}  // namespace
}  // namespace spillway::tf
