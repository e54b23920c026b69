// SPDX-License-Identifier: Apache-2.0
#include "planner_choice.hpp"

#include <gmock/gmock.h>

#include <tuple>

#include "spillway/base/error.hpp"

namespace spillway::tf {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  try {
    parse_planner(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(PlannerChoiceTest, EachPlannerThatIsExecutedHasAName) {
  for (const std::string_view name : executed_planners()) {
    EXPECT_EQ(parse_planner(name).planner->name(), name);
  }
}

TEST(PlannerChoiceTest, TheOptionsOfLmsAreThoseOfTheRewriting) {
  const PlannerChoice choice = parse_planner("lms:threshold=4,ahead=5,groupby=6,tune=off");
  EXPECT_EQ(choice.pairs.distance, 4U);
  EXPECT_EQ(choice.pairs.ahead, 5U);
  EXPECT_EQ(choice.pairs.group, 6U);
  EXPECT_FALSE(choice.options.get<bool>("tune"));
  EXPECT_FALSE(choice.serialise_levels);
  EXPECT_TRUE(parse_planner("lms:serialise-levels=on").serialise_levels);
}

TEST(PlannerChoiceTest, PartitionsHaveTheSizeThatWasNamed) {
  EXPECT_EQ(parse_planner("partitioned").partition_nodes, 200U);
  EXPECT_EQ(parse_planner("partitioned:partition-size=5").partition_nodes, 5U);
  EXPECT_EQ(parse_planner("hybrid").partition_nodes, 0U);
}

TEST(PlannerChoiceTest, GraphsHaveTwinsWhereThePlannerMayRecompute) {
  for (const std::string_view with :
       {"hybrid", "hybrid:recompute=on", "superneurons", "superneurons:recompute=memory"}) {
    EXPECT_TRUE(parse_planner(with).twins) << with;
  }
  for (const std::string_view without : {"hybrid:recompute=off", "superneurons:recompute=none",
                                         "lms", "partitioned", "swap-critical-path"}) {
    EXPECT_FALSE(parse_planner(without).twins) << without;
  }
  EXPECT_THAT(refusal("lms:recompute=on"), HasSubstr("recompute"));
}

TEST(PlannerChoiceTest, LevelsAreSerialisedWhereThePlannerIsHybridOrAsked) {
  for (const std::string_view with :
       {"hybrid", "hybrid:recompute=off", "swap-critical-path:serialise-levels=on"}) {
    EXPECT_TRUE(parse_planner(with).serialise_levels) << with;
  }
  for (const std::string_view without : {"hybrid:serialise-levels=off", "lms", "superneurons"}) {
    EXPECT_FALSE(parse_planner(without).serialise_levels) << without;
  }
}

TEST(PlannerChoiceTest, WithoutANameItIsHybridAndNoneIsNone) {
  EXPECT_EQ(choose_planner("")->planner->name(), "hybrid");
  EXPECT_TRUE(choose_planner("")->serialise_levels);
  EXPECT_EQ(choose_planner("lms")->planner->name(), "lms");
  EXPECT_FALSE(choose_planner("none"));
}

TEST(PlannerChoiceTest, OptionsThatGraphsCannotFollowAreRefused) {
  EXPECT_THAT(refusal("hybrid:workspace=off"), HasSubstr("TensorFlow chooses the algorithm"));
  EXPECT_THAT(refusal("superneurons:workspace=off"), HasSubstr("chooses the algorithm"));
  EXPECT_THAT(refusal("hybrid:disk=off"), HasSubstr("SPILLWAY_DISK_BUDGET"));
  EXPECT_THAT(refusal("hybrid:persistent=off"), HasSubstr("rules of their own"));
  EXPECT_THAT(refusal("lms:serialization-by-size=1"), HasSubstr("serialise-levels=on"));
}

TEST(PlannerChoiceTest, SwapsHoldTheirThreadsAsTheSyncModeSays) {
  for (const auto& [text, out, in] : {std::tuple{"lms", false, false},
                                      {"lms:sync-mode=1,tune=off", true, false},
                                      {"lms:sync-mode=2,tune=off", false, true},
                                      {"lms:sync-mode=3,tune=off", true, true},
                                      {"hybrid", false, false}}) {
    const PlannerChoice choice = parse_planner(text);
    EXPECT_EQ(choice.swap_outs_block, out) << text;
    EXPECT_EQ(choice.swap_ins_block, in) << text;
  }
}

TEST(PlannerChoiceTest, ASyncModeIsNotTuned) {
  EXPECT_THAT(refusal("lms:sync-mode=1"), HasSubstr("needs tune=off"));
}

TEST(PlannerChoiceTest, PartitionedHasVariablesOnTheHostUnlessTold) {
  EXPECT_TRUE(parse_planner("partitioned").variables_on_host);
  EXPECT_FALSE(parse_planner("partitioned:variables-on-host=off").variables_on_host);
  EXPECT_FALSE(parse_planner("hybrid").variables_on_host);
}

TEST(PlannerChoiceTest, WhatIsNoPlannerIsRefusedByName) {
  EXPECT_THAT(refusal("lmss"), HasSubstr("lms"));
  EXPECT_THAT(refusal("chain-recompute"), HasSubstr("hybrid, swap-critical-path"));
  EXPECT_THAT(refusal("lms:threshold"), HasSubstr("no OPTION=VALUE"));
  EXPECT_THAT(refusal("lms:treshold=4"), HasSubstr("threshold"));
  EXPECT_THAT(refusal("hybrid:serialise-levels=1"), HasSubstr("on or off"));
  EXPECT_THAT(refusal("none:recompute=on"), HasSubstr("superneurons, none"));
}

}  // namespace
}  // namespace spillway::tf
