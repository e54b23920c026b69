// SPDX-License-Identifier: Apache-2.0
// What a step changes without data waits for none, whatever is put into the graph.
#include "early_changes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "graph_builder.hpp"
#include "interpreter.hpp"
#include "ordering_edges.hpp"
#include "rewrite.hpp"
#include "swap_pairs.hpp"

namespace spillway::tf {
namespace {

using testing::GraphBuilder;
using testing::Interpreter;
using testing::RandomGraph;

using Names = std::set<std::string>;

// A step of Keras: layers with their update, a seed that advances, a counter, and weights that
// decay one after the other (AdamW).
//
//     batch ──> x1 ──> x2 ──> g ──> update
//     seed ──> next ──> advance      one ──> count      w1 ──> less1 ──> decay1, and w2 likewise
Graph keras_step() {
  GraphBuilder builder;
  builder.add("iterator", "_Arg");
  builder.add("batch", "IteratorGetNext", {"iterator"});
  builder.add("x1", "MatMul", {"batch"});
  builder.add("average", "_Arg");
  builder.add("moving", "AssignSubVariableOp", {"average", "x1"});
  builder.add("x2", "Mul", {"x1"});
  builder.add("g", "MatMul", {"x2"});
  builder.add("seed", "_Arg");
  builder.add("read", "ReadVariableOp", {"seed"});
  builder.add("next", "AddV2", {"read"});
  builder.add("again", "AddV2", {"next"});
  builder.add("advance", "AssignVariableOp", {"seed", "again"});
  builder.add("noise", "StatelessRandomUniformV2", {"read"});
  builder.add("noisy", "Mul", {"x2", "noise"});
  builder.add("one", "Const");
  builder.add("counter", "_Arg");
  builder.add("count", "AssignAddVariableOp", {"counter", "one"});
  for (const std::string i : {"1", "2"}) {
    builder.add("w" + i, "_Arg");
    builder.add("value" + i, "ReadVariableOp", {"w" + i});
    builder.add("part" + i, "Mul", {"value" + i});
    builder.add("rate" + i, "Mul", {"part" + i});
    builder.add("less" + i, "Mul", {"value" + i, "rate" + i});
    builder.add("decay" + i, "AssignSubVariableOp", {"w" + i, "less" + i});
  }
  builder.add("late", "Mul", {"noisy", "value1"});
  builder.add("update", "AssignSubVariableOp", {"w1", "g", "^decay1"});
  builder.add("result", "_Retval", {"late"});
  return std::move(builder.graph);
}

const Names kEarly{"seed",  "read",  "next",   "again", "advance", "one",   "counter",
                   "count", "w1",    "value1", "w2",    "value2",  "part1", "part2",
                   "rate1", "rate2", "less1",  "less2", "decay1",  "decay2"};

Names early_of(const Graph& graph) {
  const EarlyChanges early(graph, order_graph(graph));
  Names names;
  for (NodeIndex i = 0; i < graph.nodes.size(); ++i) {
    if (early.contains(i)) names.insert(graph.nodes[i].name);
  }
  return names;
}

// All that follow one of `starts`.
Names after(const Graph& graph, Names starts) {
  const GraphOrder order = order_graph(graph);
  for (const NodeIndex node : order.sequence) {
    if (std::ranges::any_of(order.inputs[node], [&](const Edge& edge) {
          return !edge.back && starts.contains(graph.nodes[edge.from].name);
        })) {
      starts.insert(graph.nodes[node].name);
    }
  }
  return starts;
}

Names data_in(const Graph& graph) {
  Names names;
  for (const Node& node : graph.nodes) {
    if (node.op == "IteratorGetNext") names.insert(node.name);
  }
  return names;
}

// All that a planner may ask of `rewrite_graph`.
std::vector<RewriteOptions> all_options() {
  std::vector<RewriteOptions> all;
  for (unsigned bits = 0; bits < 32; ++bits) {
    all.push_back({.pairs = {.distance = 1, .ahead = 1},
                   .trigger = (bits & 1) != 0 ? Trigger::kClock : Trigger::kEdge,
                   .serialise_levels = (bits & 2) != 0,
                   .partition_nodes = (bits & 4) != 0 ? 2U : 0U,
                   .order_updates = (bits & 8) != 0,
                   .twins = (bits & 16) != 0});
  }
  return all;
}

TEST(EarlyChangesTest, AreThoseThatNeedNoDataAndWhatTheyNeed) {
  EXPECT_EQ(early_of(keras_step()), kEarly);
}

TEST(EarlyChangesTest, AreNoneWhereNoDataIsAskedFor) {
  Graph graph = keras_step();
  graph.nodes[1].op = "Mul";
  EXPECT_EQ(early_of(graph), Names{});
}

TEST(EarlyChangesTest, GeneratorsWithAStateOfTheirOwnAreAmongThem) {
  GraphBuilder builder;
  builder.add("iterator", "_Arg");
  builder.add("batch", "IteratorGetNext", {"iterator"});
  builder.add("shape", "Const");
  builder.add("draw", "RandomUniform", {"shape"});
  builder.add("as_data", "Shape", {"batch"});
  builder.add("draw_later", "RandomUniform", {"as_data"});
  EXPECT_EQ(early_of(builder.graph), (Names{"shape", "draw"}));
}

// A network that is fed with noise: the framework does not come to its update in time.
TEST(EarlyChangesTest, AreNotThoseThatMuchComesBefore) {
  for (const std::size_t between : {62U, 63U}) {
    GraphBuilder builder;
    builder.add("iterator", "_Arg");
    builder.add("batch", "IteratorGetNext", {"iterator"});
    std::string last = builder.add("noise", "Const");
    for (std::size_t i = 0; i < between; ++i) last = builder.add_fresh("MatMul", {last});
    builder.add("weight", "_Arg");
    builder.add("update", "AssignSubVariableOp", {"weight", last});
    EXPECT_EQ(early_of(builder.graph).size(), between == 62 ? between + 3 : 0) << between;
  }
}

TEST(EarlyChangesTest, AreNotThoseInALoop) {
  GraphBuilder builder;
  builder.add("iterator", "_Arg");
  builder.add("batch", "IteratorGetNext", {"iterator"});
  builder.add("counter", "_Arg");
  builder.add("one", "Const");
  builder.add("before", "AssignAddVariableOp", {"counter", "one"});
  const std::string counter = builder.add_enter("loop", "counter");
  const std::string one = builder.add_enter("loop", "one");
  builder.add("within", "AssignAddVariableOp", {counter, one});
  EXPECT_EQ(early_of(builder.graph), (Names{"counter", "one", "before"}));
}

TEST(EarlyChangesTest, WaitForNoDataInARewrittenGraph) {
  const Graph graph = keras_step();
  for (const RewriteOptions& options : all_options()) {
    const RewriteResult made = rewrite_graph(graph.serialize(), testing::describe_op, options);
    ASSERT_TRUE(made.rewritten) << made.reason;
    const Graph rewritten = Graph::parse(made.rewritten->graph);
    const Names waiting = after(rewritten, data_in(graph));
    for (const std::string& name : kEarly) {
      EXPECT_FALSE(waiting.contains(name))
          << name << ", levels " << options.serialise_levels << ", partitions "
          << options.partition_nodes << ", updates " << options.order_updates;
    }
  }
}

TEST(EarlyChangesTest, AreStillOrderedAmongThemselves) {
  const Graph graph = keras_step();
  const GraphOrder order = order_graph(graph);
  const EarlyChanges early(graph, order);
  Graph tied = graph;
  order_updates(tied, order, early);
  EXPECT_TRUE(after(tied, {"decay1"}).contains("less2"));
  EXPECT_TRUE(after(tied, {"decay2"}).contains("g"));
  EXPECT_TRUE(after(tied, {"moving"}).contains("g"));
  tied = graph;
  serialise_levels(tied, order, heavy_nodes(graph, order), early);
  EXPECT_TRUE(after(tied, {"less1"}).contains("less2"));
}

// Random graphs in which some ops ask for data and some change a variable.
TEST(EarlyChangesTest, WaitForNoDataOnRandomGraphs) {
  std::size_t seen = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph graph = RandomGraph(seed).make(20 + seed % 60);
    for (NodeIndex i = 0; i < graph.nodes.size(); ++i) {
      Node& node = graph.nodes[i];
      if (node.inputs.empty()) continue;
      if (node.op == "Shape") node.op = "IteratorGetNext";
      if (node.op == "Cast" && i % 2 == 0) node.op = "AssignAddVariableOp";
    }
    const GraphOrder order = order_graph(graph);
    const EarlyChanges changes(graph, order);
    const Names early = early_of(graph);
    seen += early.size();
    // One after the other, on the same graph.
    Graph tied = graph;
    const auto expect_early = [&] {
      for (const std::string& name : after(tied, data_in(graph))) {
        EXPECT_FALSE(early.contains(name)) << name;
      }
    };
    serialise_levels(tied, order, heavy_nodes(graph, order), changes);
    expect_early();
    put_barriers(tied, order_graph(tied), 1 + seed % 9, changes);
    expect_early();
    order_updates(tied, order_graph(tied), changes);
    expect_early();
    EXPECT_EQ(without_ours(Interpreter(tied, seed + 1).execute()),
              Interpreter(graph, seed).execute());
  }
  EXPECT_GT(seen, 100U);
}

}  // namespace
}  // namespace spillway::tf
