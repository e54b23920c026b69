// SPDX-License-Identifier: Apache-2.0
// Graphs in which tensors may be computed again compute what they computed.
#include "twins.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph_builder.hpp"
#include "interpreter.hpp"
#include "rewrite.hpp"

namespace spillway::tf {
namespace {

using testing::describe_op;
using ::testing::ElementsAre;
using testing::GraphBuilder;
using testing::Interpreter;
using ::testing::IsEmpty;
using testing::node_named;
using testing::RandomGraph;
using testing::Value;
using testing::with_latest_edges;
using testing::with_result;

RewriteResult rewrite(const Graph& graph, RewriteOptions options = {.pairs = {.distance = 4}}) {
  options.twins = true;
  return rewrite_graph(graph.serialize(), describe_op, options);
}

// x = product, y = relu(x * scale + shift), five products more, then a gradient that reads y and
// one that reads x. `scale` and `shift` are a variable and a mean.
GraphBuilder normalised() {
  GraphBuilder builder;
  builder.add("input", "_Arg");
  builder.add("variable", "ReadVariableOp", {"input"});
  builder.add("x", "MatMul", {"input", "variable"});
  builder.add("mean", "Mean", {"x"});
  builder.add("shift", "Sub", {"variable", "mean"});
  builder.add("scaled", "Mul", {"x", "variable"});
  builder.add("shifted", "AddV2", {"scaled", "shift"});
  builder.add("y", "Relu", {"shifted", "^mean"});
  std::string before = "y";
  for (int i = 1; i <= 5; ++i) before = builder.add("m" + std::to_string(i), "MatMul", {before});
  builder.add("y_user", "MatMul", {before, "y"});
  builder.add("x_user", "MatMul", {"y_user", "x"});
  return builder;
}

TEST(TwinsTest, ACheapConeOfAWaitingTensorIsCopiedBeforeItsLastUser) {
  const RewriteResult result = rewrite(normalised().graph);
  ASSERT_TRUE(result.rewritten) << result.reason;
  const auto& pairs = result.rewritten->pairs;
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].tensor, "x");
  EXPECT_EQ(pairs[1].tensor, "y");
  EXPECT_THAT(pairs[0].cone, IsEmpty()) << "a product is not cheap";
  EXPECT_THAT(pairs[1].cone, ElementsAre("scaled", "shifted", "y"));
  EXPECT_THAT(pairs[1].sources, ElementsAre(0U));
  ASSERT_EQ(pairs[0].holes.size(), 2U);
  EXPECT_EQ(pairs[0].holes[0].gate, 1U);
  EXPECT_EQ(pairs[0].holes[1].gate, std::nullopt);

  const Graph graph = Graph::parse(result.rewritten->graph);
  const auto inputs = [&graph](const std::string& name) { return node_named(graph, name).inputs; };
  EXPECT_THAT(inputs("y_user"), ElementsAre("m5", "spillway/merge_2"));
  EXPECT_THAT(inputs("spillway/merge_2"), ElementsAre("spillway/swap_2_in_0", "spillway/twin_2"));
  EXPECT_THAT(inputs("spillway/recomputes_2"), ElementsAre("spillway/swap_2_out"));
  EXPECT_THAT(inputs("spillway/choose_2"),
              ElementsAre("spillway/swap_2_out", "spillway/recomputes_2"));
  EXPECT_EQ(inputs("spillway/swap_2_in_0").front(), "spillway/choose_2");
  EXPECT_THAT(inputs("spillway/gate_0"),
              ElementsAre("spillway/swap_0_out", "spillway/recomputes_2"));
  EXPECT_EQ(inputs("spillway/swap_0_in_0").front(), "spillway/gate_0:1");
  EXPECT_EQ(inputs("x_user").back(), "spillway/swap_0_in_1");
  EXPECT_THAT(inputs("spillway/twin_2_0"), ElementsAre("spillway/swap_0_in_0", "variable"));
  EXPECT_THAT(inputs("spillway/twin_2_1"), ElementsAre("spillway/twin_2_0", "shift"));
  EXPECT_THAT(inputs("spillway/twin_2_2"), ElementsAre("spillway/twin_2_1"));
  EXPECT_EQ(int_of(*node_named(graph, "spillway/twin_2").attribute("ops")), 3);
}

std::size_t twins_in(const Graph& graph) {
  const RewriteResult result = rewrite(graph);
  if (!result.rewritten) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(
      result.rewritten->pairs, [](const PairName& pair) { return !pair.cone.empty(); }));
}

TEST(TwinsTest, WhatIsComputedAgainServesAllUsersThatAreClose) {
  GraphBuilder builder = normalised();
  std::string before = "x_user";
  for (int i = 1; i <= 5; ++i) before = builder.add("b" + std::to_string(i), "MatMul", {before});
  builder.add("y_user_too", "MatMul", {before, "y"});
  const RewriteResult result = rewrite(builder.graph);
  ASSERT_TRUE(result.rewritten) << result.reason;
  ASSERT_EQ(result.rewritten->pairs[1].holes.size(), 1U);
  EXPECT_THAT(result.rewritten->pairs[1].holes[0].users, ElementsAre("y_user", "y_user_too"));
  for (int i = 6; i <= 17; ++i) before = builder.add("b" + std::to_string(i), "MatMul", {before});
  builder.node("y_user_too").inputs.front() = before;
  const RewriteResult far = rewrite(builder.graph);
  ASSERT_EQ(far.rewritten->pairs[1].holes.size(), 2U);
  EXPECT_THAT(far.rewritten->pairs[1].holes[1].users, ElementsAre("y_user_too"));
}

TEST(TwinsTest, NoOpThatIsNotPureAndCheapIsCopied) {
  ASSERT_EQ(twins_in(normalised().graph), 1U);
  for (const std::string op :
       {"MatMul", "Conv2D", "BiasAdd", "RandomUniform", "StatelessRandomUniformV2",
        "RandomStandardNormal", "ReadVariableOp", "ResourceGather", "Transpose", "PyFunc"}) {
    GraphBuilder inside = normalised();
    inside.node("shifted").op = op;
    EXPECT_EQ(twins_in(inside.graph), 0U) << op;
    GraphBuilder last = normalised();
    last.node("y").op = op;
    EXPECT_EQ(twins_in(last.graph), 0U) << op;
  }
}

TEST(TwinsTest, ATensorWithoutASourceThatWaitsHasNoTwin) {
  GraphBuilder builder = normalised();
  builder.node("x_user").inputs.pop_back();  // x is not there any more when y is needed
  EXPECT_EQ(twins_in(builder.graph), 0U);
  GraphBuilder small = normalised();
  small.node("scaled").inputs = {"mean", "variable"};
  EXPECT_EQ(twins_in(small.graph), 0U) << "all of it is held";
}

TEST(TwinsTest, AConeEndsAtAnotherBranchOrDevice) {
  for (const std::string name : {"x", "scaled"}) {
    GraphBuilder other = normalised();
    for (Node& node : other.graph.nodes) node.device = "/device:CPU:0";
    other.node(name).device = "/device:CPU:1";
    EXPECT_EQ(twins_in(other.graph), 0U) << name;
  }
  GraphBuilder branch = normalised();
  branch.add("switch", "Switch", {"shift", "mean"});
  branch.node("shifted").inputs[1] = "switch:1";
  branch.add("other", "Mul", {"switch"});
  branch.add("merged", "Merge", {"other", "y"});
  EXPECT_EQ(twins_in(branch.graph), 0U);
}

// What find_twins promises of each twin, looked up in the graph as it was.
class PromisesOfTwins {
 public:
  PromisesOfTwins(const Graph& before, const std::vector<PairName>& pairs)
      : before_(before), order_(order_graph(before)), pairs_(pairs) {
    for (NodeIndex i = 0; i < before.nodes.size(); ++i) index_[before.nodes[i].name] = i;
  }

  void check() const {
    for (const PairName& pair : pairs_) {
      if (pair.cone.empty()) continue;
      EXPECT_FALSE(pair.in_loop);
      check_cone(pair);
      EXPECT_FALSE(pair.sources.empty());
      for (const std::size_t source : pair.sources) check_source(pair, pairs_[source]);
    }
  }

 private:
  void check_cone(const PairName& pair) const {
    EXPECT_EQ(pair.cone.back(), pair.node);
    EXPECT_LE(pair.cone.size(), TwinOptions{}.most_ops);
    for (const std::string& name : pair.cone) {
      EXPECT_TRUE(is_cheap(before_.nodes[index_.at(name)].op)) << name;
      EXPECT_EQ(context(name), context(pair.node));
    }
  }

  void check_source(const PairName& pair, const PairName& source) const {
    EXPECT_TRUE(source.cone.empty()) << "a source is there, or comes back";
    EXPECT_EQ(context(source.node), context(pair.node));
    EXPECT_EQ(std::ranges::count_if(
                  source.holes,
                  [&](const HoleName& hole) { return hole.gate && &pairs_[*hole.gate] == &pair; }),
              1);
  }

  [[nodiscard]] std::uint32_t context(const std::string& node) const {
    return order_.context[index_.at(node)];
  }

  const Graph& before_;
  const GraphOrder order_;
  const std::vector<PairName>& pairs_;
  std::map<std::string, NodeIndex> index_;
};

struct Ran {
  std::size_t twins = 0;
  std::size_t swap_ins = 0;  ///< in their place
};

// Runs the graph and compares all that was there before.
void expect_same(const Graph& graph, const Graph& before, std::uint64_t seed, Ran& ran) {
  const auto expected = Interpreter(before, seed).execute();
  std::size_t seen = 0;
  for (const auto& [firing, value] : Interpreter(graph, seed + 1).execute()) {
    const std::string& name = std::get<0>(firing);
    if (name.starts_with("spillway/")) {
      const bool twin = name.starts_with("spillway/twin_") && node_named(graph, name).op == kTwinOp;
      ran.twins += twin && !value.dead ? 1U : 0U;
      ran.swap_ins += twin && value.dead ? 1U : 0U;
      continue;
    }
    ASSERT_TRUE(expected.contains(firing)) << name << " ran, and did not before";
    ASSERT_EQ(value, expected.at(firing)) << name;
    ++seen;
  }
  EXPECT_EQ(seen, expected.size());
}

TEST(TwinsTest, RandomGraphsComputeTheSameWhicheverTwinsRun) {
  Ran ran;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph before = with_result(RandomGraph(seed).make(20 + seed % 60));
    const RewriteOptions options{.pairs = {.distance = static_cast<std::uint32_t>(seed % 6),
                                           .group = static_cast<std::uint32_t>(seed % 4),
                                           .ahead = 1 + static_cast<std::uint32_t>(seed % 3)},
                                 .first_hole = seed,
                                 .trigger = seed % 2 == 0 ? Trigger::kEdge : Trigger::kClock};
    const RewriteResult result = rewrite(before, options);
    if (!result.rewritten) continue;
    PromisesOfTwins(before, result.rewritten->pairs).check();
    const Graph after = Graph::parse(result.rewritten->graph);
    order_graph(after);  // throws where there is a cycle or frames mix
    for (std::uint64_t run = 0; run < 2; ++run) expect_same(after, before, seed + run, ran);
    const Graph latest = with_latest_edges(after);
    order_graph(latest);
    expect_same(latest, before, seed, ran);
  }
  EXPECT_GT(ran.twins, 1000U) << "too few twins to prove anything";
  EXPECT_GT(ran.swap_ins, 1000U) << "too few that did not run";
}

}  // namespace
}  // namespace spillway::tf
