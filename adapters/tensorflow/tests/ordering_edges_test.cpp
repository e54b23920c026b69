// SPDX-License-Identifier: Apache-2.0
// Edges that only order, on random graphs: the same values in any order, no cycle, no frame
// crossed, and the order that is stated.
#include "ordering_edges.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph_builder.hpp"
#include "interpreter.hpp"
#include "rewrite.hpp"

namespace spillway::tf {
namespace {

using testing::GraphBuilder;
using testing::Interpreter;
using testing::RandomGraph;

// Nodes from which a way leads to the node.
std::set<NodeIndex> before(const GraphOrder& order, NodeIndex node) {
  std::set<NodeIndex> found;
  std::vector<NodeIndex> rest{node};
  while (!rest.empty()) {
    const NodeIndex next = rest.back();
    rest.pop_back();
    for (const Edge& edge : order.inputs[next]) {
      if (!edge.back && found.insert(edge.from).second) rest.push_back(edge.from);
    }
  }
  return found;
}

// Every edge that was put in leads between nodes of one context.
void check_contexts(const Graph& graph, const Graph& tied) {
  const GraphOrder order = order_graph(tied);
  for (NodeIndex i = 0; i < tied.nodes.size(); ++i) {
    const std::size_t known = i < graph.nodes.size() ? graph.nodes[i].inputs.size() : 0;
    for (std::size_t k = known; k < tied.nodes[i].inputs.size(); ++k) {
      EXPECT_EQ(order.context[i], order.context[order.inputs[i][k].from]) << tied.nodes[i].name;
      EXPECT_TRUE(order.inputs[i][k].control);
    }
  }
}

TEST(DepthFirstTest, WhatBecameReadyLastComesNext) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = RandomGraph(seed).make(20 + seed % 40);
    const GraphOrder order = order_graph(graph);
    const std::vector<NodeIndex> sequence = depth_first_sequence(graph, order);
    ASSERT_EQ(sequence.size(), graph.nodes.size());
    std::vector<std::size_t> place(sequence.size());
    for (std::size_t i = 0; i < sequence.size(); ++i) place[sequence[i]] = i;
    for (NodeIndex node = 0; node < graph.nodes.size(); ++node) {
      for (const Edge& edge : order.inputs[node]) {
        if (!edge.back) {
          EXPECT_LT(place[edge.from], place[node]);
        }
      }
    }
  }
  GraphBuilder builder;
  builder.add("a", "Mul");
  builder.add("b", "Mul");
  builder.add("a1", "Mul", {"a"});
  builder.add("b1", "Mul", {"b"});
  builder.add("a2", "Mul", {"a1"});
  builder.add("end", "Mul", {"a2", "b1"});
  EXPECT_EQ(depth_first_sequence(builder.graph, order_graph(builder.graph)),
            (std::vector<NodeIndex>{0, 2, 4, 1, 3, 5}));
}

TEST(PartitionsTest, EachRunsAfterTheOneBeforeOnRandomGraphs) {
  std::size_t barriers = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = RandomGraph(seed).make(20 + seed % 60);
    const std::size_t size = 1 + seed % 9;
    const auto partitions = find_partitions(graph, order_graph(graph), size);
    Graph tied = graph;
    const auto names = put_barriers(tied, order_graph(graph), size);
    check_contexts(graph, tied);
    std::size_t most = 0;
    for (const auto& row : partitions) most = std::max(most, row.size());
    EXPECT_EQ(names.size(), most);
    const auto named = [&](const auto& row) {
      return row.size() == most && graph.nodes[row.back().back()].name == names.back().back();
    };
    EXPECT_TRUE(std::ranges::any_of(partitions, named));
    const GraphOrder order = order_graph(tied);  // throws if there is a cycle
    std::map<std::string, NodeIndex> index;
    for (NodeIndex i = 0; i < tied.nodes.size(); ++i) index[tied.nodes[i].name] = i;
    for (std::size_t context = 0; context < partitions.size(); ++context) {
      for (std::size_t k = 1; k < partitions[context].size(); ++k) {
        EXPECT_EQ(partitions[context][k - 1].size(), size);
        const NodeIndex barrier =
            index.at("spillway/barrier_" + std::to_string(context) + "_" + std::to_string(k));
        const std::set<NodeIndex> done = before(order, barrier);
        for (const NodeIndex node : partitions[context][k - 1]) EXPECT_TRUE(done.contains(node));
        for (const NodeIndex node : partitions[context][k]) {
          EXPECT_TRUE(before(order, node).contains(barrier));
        }
        ++barriers;
      }
    }
    EXPECT_EQ(without_ours(Interpreter(tied, seed + 1).execute()),
              Interpreter(graph, seed).execute());
  }
  EXPECT_GT(barriers, 400U);
}

TEST(SerialisedLevelsTest, HeavyOpsOfOneLevelFollowEachOtherOnRandomGraphs) {
  std::size_t ties = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = RandomGraph(seed).make(20 + seed % 60);
    const GraphOrder order = order_graph(graph);
    Graph tied = graph;
    serialise_levels(tied, order, heavy_nodes(graph, order));
    ASSERT_EQ(tied.nodes.size(), graph.nodes.size());
    check_contexts(graph, tied);
    const GraphOrder after = order_graph(tied);
    for (const std::vector<NodeIndex>& row : heavy_nodes(graph, order)) {
      for (const NodeIndex u : row) {
        for (const NodeIndex v : row) {
          if (u >= v || order.level[u] != order.level[v] || !may_be_tied(graph.nodes[u]) ||
              !may_be_tied(graph.nodes[v])) {
            continue;
          }
          EXPECT_TRUE(before(after, v).contains(u)) << graph.nodes[v].name;
          ++ties;
        }
      }
    }
    EXPECT_EQ(Interpreter(tied, seed + 1).execute(), Interpreter(graph, seed).execute());
  }
  EXPECT_GT(ties, 100U);
}

// Two layers and their updates, as a program has them:
//
//     w1 ──> x1 ──> x2 <── w2        x2 ──> d2 ──> g2 ──> u2        g: gradients of weights
//                                    d2, w2 ──> d1 ──> g1 ──> u1    d: of activations
struct TwoLayers {
  GraphBuilder builder;
  TwoLayers() {
    builder.add("x", "Const");
    for (const std::string i : {"1", "2"}) {
      builder.add("w" + i, "VarHandleOp");
      builder.add("read" + i, "ReadVariableOp", {"w" + i});
    }
    builder.add("x1", "MatMul", {"x", "read1"});
    builder.add("x2", "MatMul", {"x1", "read2"});
    builder.add("d2", "TanhGrad", {"x2"});
    builder.add("d1", "MatMul", {"d2", "read2"});
    builder.add("g1", "MatMul", {"x", "d1"});
    builder.add("g2", "MatMul", {"x1", "d2"});
    builder.add("step1", "Mul", {"g1"});
    builder.add("step2", "Mul", {"g2"});
    for (const std::string i : {"1", "2"}) {
      builder.add("u" + i, "AssignSubVariableOp", {"w" + i, "step" + i, "^read" + i});
    }
  }
  // The nodes before a node once updates are ordered.
  std::set<std::string> before_node(const std::string& name) {
    Graph tied = builder.graph;
    order_updates(tied, order_graph(builder.graph));
    std::set<std::string> names;
    for (const NodeIndex node : before(order_graph(tied), index_of(tied, name))) {
      names.insert(tied.nodes[node].name);
    }
    return names;
  }
  static NodeIndex index_of(const Graph& graph, const std::string& name) {
    const auto found = std::ranges::find(graph.nodes, name, &Node::name);
    return static_cast<NodeIndex>(found - graph.nodes.begin());
  }
};

TEST(UpdateOrderTest, AGradientIsUsedUpBeforeTheNextIsComputed) {
  TwoLayers layers;
  EXPECT_TRUE(layers.before_node("g1").contains("u2"));
  EXPECT_FALSE(layers.before_node("g2").contains("u1"));
}

TEST(UpdateOrderTest, WhoReadsAVariableComesBeforeItsUpdate) {
  TwoLayers layers;
  EXPECT_TRUE(layers.before_node("u2").contains("d1"));
}

TEST(UpdateOrderTest, WhoReadsTheFormerValueAfterTheUpdateStays) {
  TwoLayers layers;
  layers.builder.add("late", "Mul", {"read2", "^u2"});
  EXPECT_FALSE(layers.before_node("u2").contains("late"));
}

TEST(UpdateOrderTest, AGraphThatExchangesTensorsIsLeftAsItIs) {
  TwoLayers layers;
  layers.builder.add("all", "CollectiveReduceV2", {"x"});
  EXPECT_FALSE(layers.before_node("g1").contains("u2"));
}

TEST(UpdateOrderTest, UpdatesOfOneContextFollowEachOtherOnRandomGraphs) {
  std::size_t pairs = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Graph graph = RandomGraph(seed).make(20 + seed % 60);
    for (NodeIndex i = 0; i < graph.nodes.size(); ++i) {
      Node& node = graph.nodes[i];
      if (node.op == "Cast" || (node.op == "Mul" && i % 3 == 0 && !node.inputs.empty())) {
        node.op = "AssignAddVariableOp";
      } else if (node.op == "Mul" && i % 3 == 1 && !node.inputs.empty()) {
        node.op = "ReadVariableOp";
      }
    }
    const GraphOrder order = order_graph(graph);
    Graph tied = graph;
    order_updates(tied, order);
    check_contexts(graph, tied);
    const GraphOrder after = order_graph(tied);  // throws if there is a cycle
    std::map<std::uint32_t, std::vector<NodeIndex>> updates;
    for (NodeIndex i = 0; i < graph.nodes.size(); ++i) {
      if (is_update_in_place(graph.nodes[i].op)) updates[order.context[i]].push_back(i);
    }
    for (auto& [context, row] : updates) {
      std::ranges::sort(row, {}, [&](NodeIndex i) { return std::pair(order.level[i], i); });
      for (std::size_t k = 1; k < row.size(); ++k) {
        EXPECT_TRUE(before(after, row[k]).contains(row[k - 1])) << graph.nodes[row[k]].name;
        ++pairs;
      }
    }
    EXPECT_EQ(Interpreter(tied, seed + 1).execute(), Interpreter(graph, seed).execute());
  }
  EXPECT_GT(pairs, 400U);
}

// The gradient is a constant, so that the bias's is ready long before the filter's:
//
//     g ──> bias ──> update
//     x1 ──> x2 ──> x3 ──> filter (x3, sizes, g)
TEST(OrderingEdgesTest, NoBarrierClosesACycleOverTwoOpsThatBecomeOne) {
  GraphBuilder builder;
  builder.add("g", "Const");
  builder.add("start", "Const");
  builder.add("sizes", "Const");
  builder.add("bias", "BiasAddGrad", {"g"});
  builder.add("update", "Mul", {"bias"});
  builder.add("x1", "Mul", {"start"});
  builder.add("x2", "Mul", {"x1"});
  builder.add("x3", "Mul", {"x2"});
  builder.add("filter", "Conv2DBackpropFilter", {"x3", "sizes", "g"});
  Graph tied = builder.graph;
  put_barriers(tied, order_graph(builder.graph), 1);
  EXPECT_GT(tied.nodes.size(), builder.graph.nodes.size());
  // Now as oneDNN leaves it.
  GraphBuilder merged{tied};
  merged.node("bias").inputs = {"g", "x3", "sizes"};
  std::erase_if(merged.graph.nodes, [](const Node& node) { return node.name == "filter"; });
  EXPECT_NO_THROW(order_graph(merged.graph));
}

TEST(OrderingEdgesTest, ExchangeBetweenDevicesControlFlowAndWhatIsMergedAreNotTied) {
  for (const std::string op :
       {"CollectiveReduceV2", "_Recv", "_Arg", "Switch", "Merge", "Enter", "Pad", "Conv2D",
        "_FusedConv2D", "BiasAdd", "Conv2DBackpropFilter", "BiasAddGrad"}) {
    EXPECT_FALSE(may_be_tied({.name = "x", .op = op, .device = {}, .inputs = {"y"}, .rest = {}}))
        << op;
  }
  EXPECT_TRUE(
      may_be_tied({.name = "x", .op = "MatMul", .device = {}, .inputs = {"y"}, .rest = {}}));
}

}  // namespace
}  // namespace spillway::tf
