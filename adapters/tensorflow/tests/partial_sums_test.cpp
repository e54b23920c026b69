// SPDX-License-Identifier: Apache-2.0
// A sum of many tensors that is taken apart has the same value in every bit.
#include "partial_sums.hpp"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "graph_builder.hpp"

namespace spillway::tf {
namespace {

using testing::GraphBuilder;
using testing::node_named;

GraphBuilder sum_of(std::size_t terms) {
  GraphBuilder builder;
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < terms; ++i) {
    inputs.push_back(builder.add("a" + std::to_string(i), "MatMul"));
  }
  inputs.push_back("^before");
  builder.add("before", "NoOp");
  builder.add("sum", "AddN", inputs);
  builder.graph.nodes.back().add_type_attribute("T", kFloat);
  builder.graph.nodes.back().add_int_attribute("N", terms);
  builder.add("user", "MatMul", {"sum"});
  return builder;
}

std::vector<std::string> terms_of(const Node& node) {
  std::vector<std::string> terms;
  for (const std::string& input : node.inputs) {
    if (!parse_input(input).control) terms.push_back(input);
  }
  return terms;
}

float in_a_row(std::span<const float> terms) {
  float sum = terms[0];
  for (const float term : terms.subspan(1)) sum += term;
  return sum;
}

// As AddNOp adds (tensorflow/core/kernels/aggregate_ops.cc).
float as_the_kernel_adds(std::span<const float> terms) {
  if (terms.size() == 1) return terms[0];
  std::size_t next = terms.size() % 8;
  if (next < 2) next += 8;
  float sum = in_a_row(terms.first(next));
  for (; next < terms.size(); next += 8) sum += in_a_row(terms.subspan(next, 8));
  return sum;
}

// The values of the nodes named, each sum's as the kernel adds.
float value_of(const Graph& graph, const std::string& name, std::map<std::string, float>& values) {
  const auto known = values.find(name);
  if (known != values.end()) return known->second;
  std::vector<float> terms;
  for (const std::string& term : terms_of(node_named(graph, name))) {
    terms.push_back(value_of(graph, term, values));
  }
  return values[name] = as_the_kernel_adds(terms);
}

TEST(PartialSumsTest, HaveTheSumsValueInEveryBit) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 1);
  for (std::size_t count = 1; count <= 100; ++count) {
    std::vector<float> terms(count);
    for (float& term : terms) term = normal(random);
    Graph graph = sum_of(count).graph;
    take_sums_apart(graph);
    std::map<std::string, float> values;
    for (std::size_t i = 0; i < count; ++i) values["a" + std::to_string(i)] = terms[i];
    EXPECT_EQ(value_of(graph, "sum", values), as_the_kernel_adds(terms)) << count;
  }
}

TEST(PartialSumsTest, NeedNineInputsAtMost) {
  for (std::size_t count = 1; count <= 100; ++count) {
    Graph graph = sum_of(count).graph;
    take_sums_apart(graph);
    for (const Node& node : graph.nodes) {
      if (node.op != "AddN") continue;
      const std::size_t terms = terms_of(node).size();
      EXPECT_LE(terms, 9U);
      EXPECT_EQ(int_of(*node.attribute("N")), terms);
      EXPECT_EQ(type_of(*node.attribute("T")), kFloat);
    }
    EXPECT_EQ(node_named(graph, "sum").inputs.back(), "^before");
    EXPECT_EQ(node_named(graph, "user").inputs, std::vector<std::string>{"sum"});
  }
}

TEST(PartialSumsTest, LeaveSumsOnACardAsTheyAre) {
  GraphBuilder builder = sum_of(30);
  builder.node("sum").device = "/job:localhost/replica:0/task:0/device:GPU:0";
  const std::string before = builder.graph.serialize();
  take_sums_apart(builder.graph);
  EXPECT_EQ(builder.graph.serialize(), before);
}

TEST(PartialSumsTest, LeaveShortSumsAndListsAsTheyAre) {
  constexpr std::uint64_t kVariant = 21;  // of DataType: lists of a dynamic loop are added so
  Graph graph = sum_of(9).graph;
  const std::string before = graph.serialize();
  take_sums_apart(graph);
  EXPECT_EQ(graph.serialize(), before);
  GraphBuilder lists = sum_of(30);
  lists.node("sum").rest.clear();
  lists.node("sum").add_type_attribute("T", kVariant);
  const std::size_t nodes = lists.graph.nodes.size();
  take_sums_apart(lists.graph);
  EXPECT_EQ(lists.graph.nodes.size(), nodes);
}

}  // namespace
}  // namespace spillway::tf
