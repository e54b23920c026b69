// SPDX-License-Identifier: Apache-2.0
#include "pair_trace.hpp"

#include <gtest/gtest.h>

#include <random>
#include <variant>

#include "planner_choice.hpp"
#include "spillway/plan/validator.hpp"
#include "spillway/planning/plan_source.hpp"
#include "spillway/planning/sim/simulator.hpp"

namespace spillway::tf {
namespace {

// op 0 makes a, 1 uses it early, 6 and 7 use what the first swap-in brings, 10 what the second
// does.
PairedGraph graph() {
  PairedGraph graph{.first_hole = 40, .first_clock = 3};
  graph.clocks = {{"op2", "op4", "op8", "op9"}};
  graph.pairs = {{.tensor = "op0",
                  .node = "op0",
                  .early = {"op1"},
                  .clock = 3,
                  .holes = {{.users = {"op6", "op7"}, .due = 1, .latest = 2},
                            {.users = {"op10"}, .due = 3, .latest = 4}}}};
  return graph;
}

RunProfile run() {
  RunProfile run;
  for (int i = 0; i < 12; ++i) {
    run.ops.push_back({.node = "op" + std::to_string(i), .duration_ns = 1000, .peak = kMiB * 10});
  }
  // In memory until op 2, and again from op 5 to 10.
  run.stays = {{.hole = 40, .bytes = kMiB, .from = 0, .to = 2},
               {.hole = 40, .back = true, .bytes = kMiB, .from = 5, .to = 10}};
  return run;
}

TEST(PairTraceTest, WhatCannotLeaveIsWorkspaceAndAStorageIsHeldWhereNoHoleIs) {
  const PairTrace step = make_pair_trace(run(), graph());
  EXPECT_EQ(validate(step.trace), std::nullopt);
  ASSERT_EQ(step.trace.storages.size(), 2U) << "the tensor, and the order of ops";
  EXPECT_EQ(step.trace.ops.creates[OpIndex{0}][0], StorageId{0});
  EXPECT_EQ(step.trace.ops.frees[OpIndex{10}].size(), 1U);
  std::vector<bool> reads;
  for (std::size_t i = 0; i < 12; ++i) reads.push_back(!step.trace.ops.reads[OpIndex{i}].empty());
  EXPECT_EQ(reads, (std::vector<bool>{false, true, false, false, false, false, true, true, false,
                                      false, true, false}));
  EXPECT_EQ(step.trace.ops.workspace[1], kMiB * 9);
  EXPECT_EQ(step.trace.ops.workspace[3], kMiB * 10) << "it was away";
  EXPECT_EQ(step.trace.ops.workspace[8], kMiB * 9);
  ASSERT_EQ(step.waits.size(), 2U);
  EXPECT_EQ(step.waits[0].before, 1U);
  EXPECT_EQ(step.waits[0].after, 6U);
  EXPECT_EQ(step.waits[1].before, 7U);
  EXPECT_EQ(step.waits[1].after, 10U);
}

TEST(PairTraceTest, APlanIsAChoiceForEachHole) {
  const PairTrace step = make_pair_trace(run(), graph());
  Plan plan;
  plan.actions = {PlanAction::evict(OpIndex{2}, StorageId{0}, Tier::kHost),
                  PlanAction::fetch(OpIndex{5}, StorageId{0})};
  // Before op 5 the ops 2 and 4 have begun: time 2 of the clock.
  EXPECT_EQ(choose(step, run(), graph(), plan),
            (std::vector<HoleChoice>{{.hole = 40, .leaves = true, .due = 2},
                                     {.hole = 41, .leaves = false, .due = 4}}));
  plan.actions = {PlanAction::evict(OpIndex{8}, StorageId{0}, Tier::kHost),
                  PlanAction::fetch(OpIndex{9}, StorageId{0})};
  EXPECT_EQ(choose(step, run(), graph(), plan),
            (std::vector<HoleChoice>{{.hole = 40, .leaves = false, .due = 2},
                                     {.hole = 41, .leaves = true, .due = 3}}));
}

TEST(PairTraceTest, PairsInLoopsAndOfOpsThatDidNotRunHaveNoStorage) {
  PairedGraph looped = graph();
  looped.pairs[0].in_loop = true;
  EXPECT_EQ(make_pair_trace(run(), looped).trace.storages.size(), 1U) << "the order";
  PairedGraph fused = graph();
  fused.pairs[0].holes[1].users = {"gone"};
  EXPECT_EQ(make_pair_trace(run(), fused).trace.storages.size(), 1U);
  EXPECT_TRUE(make_pair_trace(run(), fused).waits.empty());
}

// A chain of maps, each used by the next op and again on the way back.
struct Network {
  PairedGraph graph{.first_hole = 0, .first_clock = 0};
  RunProfile run;

  Network(std::uint64_t seed, std::size_t depth) {
    std::mt19937_64 random(seed);
    graph.clocks.emplace_back();
    std::vector<Bytes> sizes(depth);
    const auto add = [&](const std::string& name) {
      run.ops.push_back({.node = name, .duration_ns = TimeNs(1000 + random() % 5000), .peak = {}});
      graph.clocks[0].push_back(name);
    };
    for (std::size_t i = 0; i < depth; ++i) add("f" + std::to_string(i));
    for (std::size_t i = depth; i-- > 0;) add("b" + std::to_string(i));
    for (std::size_t i = 0; i < depth; ++i) {
      sizes[i] = kMiB * (1 + random() % 8);
      const std::size_t use = 2 * depth - 1 - i;
      const auto latest = static_cast<std::uint32_t>(use);
      graph.pairs.push_back(
          {.tensor = "f" + std::to_string(i),
           .node = "f" + std::to_string(i),
           .early = {"f" + std::to_string(i + 1)},
           .clock = 0,
           .holes = {{.users = {"b" + std::to_string(i)}, .due = latest, .latest = latest}}});
      if (i + 1 == depth) graph.pairs.back().early.clear();
      // Away from two ops later until one before its use.
      run.stays.push_back({.hole = i, .bytes = sizes[i], .from = i, .to = std::min(i + 2, use)});
      if (i + 3 < use) {
        run.stays.push_back(
            {.hole = i, .back = true, .bytes = sizes[i], .from = use - 1, .to = use});
      }
    }
    for (std::size_t op = 0; op < run.ops.size(); ++op) {
      Bytes peak = kMiB * (random() % 10);
      for (const ProfiledStay& stay : run.stays) {
        if (stay.from <= op && op <= stay.to) peak += stay.bytes;
      }
      run.ops[op].peak = peak;
    }
  }
};

TEST(PairTraceTest, PlansOfEveryPlannerAreChoicesThatKeepToTheBudgetAtRandom) {
  Machine machine;
  machine.device.capacity.value = kGiB;
  machine.host_capacity.value = kGiB;
  machine.page_locked_capacity.value = kGiB;
  machine.links[index_of(LinkKind::kDeviceToHost)] = Link{.bytes_per_second = 1e15};
  machine.links[index_of(LinkKind::kHostToDevice)] = Link{.bytes_per_second = 1e15};
  std::size_t leaving = 0;
  for (const std::string_view name : executed_planners()) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
      const Network network(seed, 6 + seed % 20);
      const PairTrace step = make_pair_trace(network.run, network.graph);
      ASSERT_EQ(validate(step.trace), std::nullopt);
      Budgets budgets;
      budgets[Tier::kDevice] = {peak_bytes(step.trace).count * 7 / 10};
      budgets[Tier::kHost] = kGiB;
      PlannerChoice choice = parse_planner(name);
      planning::PlanningContext context;
      context.explain = false;
      context.time_limit_ns = 0;
      const planning::PlannerSource source(*choice.planner, choice.options, machine, budgets,
                                           context);
      const auto outcome = source.actions_for(step.trace);
      const auto* const actions = std::get_if<planning::StepActions>(&outcome);
      if (actions == nullptr) continue;
      // What the choices leave in memory while each op runs.
      std::vector<Bytes> held(network.run.ops.size());
      for (std::size_t op = 0; op < held.size(); ++op) held[op] = step.trace.ops.workspace[op];
      const auto choices = choose(step, network.run, network.graph, actions->plan());
      ASSERT_EQ(choices.size(), step.waits.size() + step.short_holes.size());
      for (const HoleChoice& choice_of : choices) {
        EXPECT_LE(choice_of.due, network.graph.pairs[choice_of.hole].holes[0].latest);
        leaving += choice_of.leaves ? 1U : 0U;
        const std::size_t use = 2 * network.graph.pairs.size() - 1 - choice_of.hole;
        for (std::size_t op = choice_of.hole; op <= use; ++op) {
          // Gone once its early user is done, back with the op before which it was due.
          const bool away = choice_of.leaves && op > choice_of.hole + 1 && op < choice_of.due;
          if (!away) held[op] += step.trace.storages.bytes[choice_of.hole];
        }
      }
      for (std::size_t op = 0; op < held.size(); ++op) EXPECT_LE(held[op], budgets[Tier::kDevice]);
    }
  }
  EXPECT_GT(leaving, 300U);
}

}  // namespace
}  // namespace spillway::tf
