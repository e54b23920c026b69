// SPDX-License-Identifier: Apache-2.0
#include "final_report.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

namespace spillway::tf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FinalReportTest, SaysThatNoPlanIsFollowedAnyMore) {
  FinalFigures figures;
  figures.plan.planner = "lms";
  figures.plan.plans = 2;
  figures.plan.ended = "no room";
  EXPECT_THAT(to_summary(figures),
              HasSubstr("lms made 2 plans, none of which is followed any more: no room\n"));
  EXPECT_THAT(to_json(figures), HasSubstr("\"no_plan_because\": \"no room\""));
  figures.plan.plans = 0;
  EXPECT_THAT(to_summary(figures), HasSubstr("lms made no plan: no room\n"));
}

TEST(FinalReportTest, SaysWhichGraphsAreLeftAndWhy) {
  FinalFigures figures;
  figures.variables.peak_bytes = kMiB * 7;  // those of a model that is gone when the process ends
  figures.graphs.left = {{"an edge mixes frames", {.count = 1, .sample = "dense/MatMul"}},
                         {"two nodes are named m", {.count = 3, .sample = "conv/Conv2D"}},
                         {"no message", {.count = 1, .sample = ""}},
                         {std::string(kNothingWaits), {.count = 5, .sample = "metrics/Sum"}}};
  const std::string summary = to_summary(figures);
  EXPECT_THAT(summary, HasSubstr("up to 7 MiB of variables in the store"));
  EXPECT_THAT(summary, HasSubstr("no activation leaves in 1 graph with dense/MatMul: an edge "
                                 "mixes frames\n"));
  EXPECT_THAT(summary, HasSubstr("no activation leaves in 3 graphs, of which the first has "
                                 "conv/Conv2D: two nodes are named m\n"));
  EXPECT_THAT(summary, HasSubstr("no activation leaves in 1 graph: no message\n"));
  EXPECT_THAT(summary, Not(HasSubstr("metrics/Sum"))) << "in which nothing need leave";
  const auto told = nlohmann::json::parse(to_json(figures));
  EXPECT_EQ(told["graphs_left"], 10);
  EXPECT_EQ(told["left_because"]["two nodes are named m"], 3);
}

TEST(FinalReportTest, NotesAreTheSummaryButForItsFirstLine) {
  FinalFigures figures;
  figures.graphs.left = {{"an edge mixes frames", {.count = 1, .sample = "dense/MatMul"}}};
  figures.variables.refused = 2;
  figures.variables.refusal = "the disk is full";
  figures.table.recomputed_ops = 3;
  figures.plan.planner = "hybrid";
  figures.plan.no_plan = "the step does not fit with the planner's choices";
  const std::string notes = to_notes(figures);
  EXPECT_EQ(notes,
            "no activation leaves in 1 graph with dense/MatMul: an edge mixes frames\n"
            "2 times a variable was to leave memory and stayed: the disk is full\n"
            "3 ops ran again, in place of swapping 0 B\n"
            "hybrid made no plan: the step does not fit with the planner's choices\n");
  const std::string summary = to_summary(figures);
  EXPECT_EQ(summary.substr(summary.find('\n') + 1), with_our_name(notes));
  EXPECT_THAT(with_our_name(notes), HasSubstr("\nspillway: 2 times a variable"));
}

TEST(FinalReportTest, SaysNoMoreThanSomeReasons) {
  FinalFigures figures;
  for (const char* const node : {"a", "b", "c", "d", "e", "f", "g"}) {
    figures.graphs.left[std::string("two nodes are named ") + node] = {.count = 1, .sample = node};
  }
  const std::string summary = to_summary(figures);
  EXPECT_THAT(summary, HasSubstr("named e\n"));
  EXPECT_THAT(summary, Not(HasSubstr("named f\n")));
  EXPECT_THAT(summary, HasSubstr("left_because of the statistics has the other reasons\n"));
}

}  // namespace
}  // namespace spillway::tf
