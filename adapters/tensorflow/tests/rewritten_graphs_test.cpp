// SPDX-License-Identifier: Apache-2.0
#include "rewritten_graphs.hpp"

#include <gmock/gmock.h>

#include <string>

#include "graph_builder.hpp"
#include "plan_loop.hpp"
#include "rewrite.hpp"
#include "run_profile.hpp"
#include "swap_table.hpp"

namespace spillway::tf {
namespace {

using testing::describe_op;
using testing::GraphBuilder;

class RewrittenGraphsTest : public ::testing::Test {
 protected:
  // One op after the other; the last one uses what the first one made, too.
  static GraphBuilder chain(int length) {
    GraphBuilder builder;
    builder.add("source", "Const");
    std::string before = builder.add("make", "MatMul", {"source"});
    for (int i = 0; i < length; ++i) before = builder.add_fresh("MatMul", {before});
    builder.add("user", "MatMul", {before, "make"});
    return builder;
  }

  // Whether a tensor of a few bytes stays in the hole after some runs of its graph.
  bool passes_in_the_end(std::uint64_t hole) {
    bool copies = true;
    for (int run = 0; run < 40; ++run) copies = table_.copies(hole, Bytes{100});
    return !copies;
  }

  SwapTable table_{{.budget = kMiB, .smallest = Bytes{1}}, [] { return Bytes{}; }};
  RewrittenGraphs graphs_{table_, [] { return RewriteOptions{}; }};
};

TEST_F(RewrittenGraphsTest, EachGraphHasHolesOfItsOwn) {
  for (int i = 1; i <= 3; ++i) {
    const auto graph = graphs_.rewrite(chain(12).graph.serialize(), describe_op);
    ASSERT_TRUE(graph);
    EXPECT_EQ(table_.state().holes, static_cast<std::uint64_t>(i));
    const std::string hole = std::to_string(i - 1);
    EXPECT_NE(graph->find("spillway/swap_" + hole + "_in_0"), std::string::npos) << hole;
  }
  EXPECT_EQ(graphs_.counts().rewritten, 3U);
  EXPECT_TRUE(graphs_.counts().left.empty());
}

// As in a process with a card, whose processor shows no op. A plan of a former run would be
// followed for good.
TEST_F(RewrittenGraphsTest, WhereNoRunCanBeMeasuredTheTableDecides) {
  std::string obstacle;
  RunProfiler profiler;
  PlanLoop plans({.choice = parse_planner("hybrid"),
                  .budget = kMiB,
                  .cache = PlanCache("", "hybrid"),
                  .rates = [] { return CopyRates{}; },
                  .variables = [] { return Bytes{}; },
                  .now = [] { return TimeNs{0}; },
                  .obstacle = [&] { return obstacle; }},
                 profiler, table_);
  graphs_.set_plans(plans, profiler);
  ASSERT_TRUE(graphs_.rewrite(chain(12).graph.serialize(), describe_op));
  EXPECT_EQ(plans.state().no_plan, "");
  EXPECT_FALSE(passes_in_the_end(0)) << "its plan is awaited";
  obstacle = "ops are hidden";
  ASSERT_TRUE(graphs_.rewrite(chain(12).graph.serialize(), describe_op));
  EXPECT_EQ(plans.state().no_plan, "ops are hidden");
  EXPECT_TRUE(passes_in_the_end(1));
}

TEST_F(RewrittenGraphsTest, AGraphThatIsLeftIsCountedWithItsReason) {
  EXPECT_FALSE(graphs_.rewrite(chain(1).graph.serialize(), describe_op));
  EXPECT_FALSE(graphs_.rewrite(chain(2).graph.serialize(), describe_op));
  GraphBuilder twice = chain(12);
  twice.add("make", "Mul");
  EXPECT_FALSE(graphs_.rewrite(twice.graph.serialize(), describe_op));
  EXPECT_FALSE(graphs_.rewrite("no graph", describe_op));
  const GraphCounts counts = graphs_.counts();
  EXPECT_EQ(counts.rewritten, 0U);
  EXPECT_EQ(counts.left_in_all(), 4U);
  EXPECT_EQ(counts.left.size(), 3U);
  EXPECT_EQ(counts.left.at(std::string(kNothingWaits)).count, 2U);
  EXPECT_EQ(counts.left.at(std::string(kNothingWaits)).sample, "make");
  EXPECT_EQ(table_.state().holes, 0U);
}

TEST_F(RewrittenGraphsTest, WhereAStepIsRecordedGraphsStayAsTheyAre) {
  graphs_.only_record(nullptr);
  EXPECT_FALSE(graphs_.rewrite(chain(12).graph.serialize(), describe_op));
  EXPECT_EQ(graphs_.counts().rewritten, 0U);
  EXPECT_EQ(table_.state().holes, 0U);
}

}  // namespace
}  // namespace spillway::tf
