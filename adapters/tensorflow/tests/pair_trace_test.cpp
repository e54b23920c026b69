// SPDX-License-Identifier: Apache-2.0
#include "pair_trace.hpp"

#include <gtest/gtest.h>

#include <optional>
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

TEST(PairTraceTest, LimitedNeedsLeaveRoomForWhatAnOpTouches) {
  Trace trace;
  const StorageId storage = trace.add(TraceStorage{.bytes = kMiB * 3});
  trace.add(TraceOp{.workspace = kMiB * 9, .creates = {storage}});
  trace.add(TraceOp{.workspace = kMiB * 5, .reads = {storage}, .writes = {storage}});
  trace.add(TraceOp{.workspace = kMiB * 9, .frees = {storage}});
  EXPECT_FALSE(limit_needs(trace, kMiB * 2)) << "the storage alone is more";
  EXPECT_FALSE(limit_needs(trace, kMiB * 12)) << "no op needs more";
  EXPECT_TRUE(limit_needs(trace, kMiB * 8));
  EXPECT_EQ(trace.ops.workspace, (std::vector<Bytes>{kMiB * 5, kMiB * 5, kMiB * 8}));
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

TEST(PairTraceTest, OpsHaveThePartitionsOfTheirNodes) {
  EXPECT_TRUE(make_pair_trace(run(), graph()).partitions.empty());
  PairedGraph cut = graph();
  // Op 3 is in none, op 7 began late, `gone` did not run.
  cut.partitions = {{"op0", "op1", "op2"}, {"op4", "gone", "op5", "op6"}, {"op8", "op9"}, {"op11"}};
  cut.partitions[0].push_back("op7");
  EXPECT_EQ(make_pair_trace(run(), cut).partitions,
            (std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3}));
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

// By a machine whose links to the host pass so many bytes per second; nothing if there is no plan.
std::optional<Plan> plan_of(std::string_view planner, const Trace& step, Bytes budget,
                            double bytes_per_second) {
  Machine machine;
  machine.device.capacity.value = kGiB;
  machine.host_capacity.value = kGiB;
  machine.page_locked_capacity.value = kGiB;
  for (const LinkKind link : {LinkKind::kDeviceToHost, LinkKind::kHostToDevice}) {
    machine.links[index_of(link)] = Link{.bytes_per_second = bytes_per_second};
  }
  Budgets budgets;
  budgets[Tier::kDevice] = budget;
  budgets[Tier::kHost] = kGiB;
  const PlannerChoice choice = parse_planner(planner);
  planning::PlanningContext context;
  context.explain = false;
  context.time_limit_ns = 0;
  const planning::PlannerSource source(*choice.planner, choice.options, machine, budgets, context);
  const auto outcome = source.actions_for(step);
  const auto* const actions = std::get_if<planning::StepActions>(&outcome);
  if (actions == nullptr) return std::nullopt;
  return actions->plan();
}

TEST(PairTraceTest, PlansOfEveryPlannerAreChoicesThatKeepToTheBudgetAtRandom) {
  std::size_t leaving = 0;
  for (const std::string_view name : executed_planners()) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
      const Network network(seed, 6 + seed % 20);
      const PairTrace step = make_pair_trace(network.run, network.graph);
      ASSERT_EQ(validate(step.trace), std::nullopt);
      const Bytes budget{peak_bytes(step.trace).count * 7 / 10};
      const std::optional<Plan> plan = plan_of(name, step.trace, budget, 1e15);
      if (!plan) continue;
      // What the choices leave in memory while each op runs.
      std::vector<Bytes> held(network.run.ops.size());
      for (std::size_t op = 0; op < held.size(); ++op) held[op] = step.trace.ops.workspace[op];
      const auto choices = choose(step, network.run, network.graph, *plan);
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
      for (std::size_t op = 0; op < held.size(); ++op) EXPECT_LE(held[op], budget);
    }
  }
  EXPECT_GT(leaving, 300U);
}

// Ops 0 to 5, back from 6 to 11. Op 0 makes x, and op 1 of it y, which ops 2 and 8 use; x is used
// by op 9 besides.
PairedGraph graph_with_twin() {
  PairedGraph graph{.first_hole = 40, .first_clock = 3};
  graph.clocks = {{"op0", "op2", "op4", "op6", "op7", "op8", "op9"}};
  graph.pairs = {
      {.tensor = "op0",
       .node = "op0",
       .early = {"op1"},
       .clock = 3,
       .holes = {{.due = 4, .latest = 5, .gate = 1}, {.users = {"op9"}, .due = 5, .latest = 6}}},
      {.tensor = "op1",
       .node = "op1",
       .early = {"op2"},
       .clock = 3,
       .holes = {{.users = {"op8"}, .due = 4, .latest = 5}},
       .cone = {"op1"},
       .sources = {0}}};
  return graph;
}

RunProfile run_with_twin() {
  RunProfile run;
  for (int i = 0; i < 12; ++i) {
    run.ops.push_back({.node = "op" + std::to_string(i), .duration_ns = 1000, .peak = kMiB * 10});
  }
  run.stays = {{.hole = 40, .bytes = kMiB, .from = 0, .to = 2},
               {.hole = 41, .back = true, .bytes = kMiB, .from = 8, .to = 9},
               {.hole = 42, .bytes = kMiB, .from = 1, .to = 3},
               {.hole = 42, .back = true, .bytes = kMiB, .from = 7, .to = 8}};
  return run;
}

TEST(PairTraceTest, ATensorWithATwinIsRecomputableFromItsSources) {
  const PairTrace step = make_pair_trace(run_with_twin(), graph_with_twin());
  EXPECT_EQ(validate(step.trace), std::nullopt);
  for (std::size_t op = 0; op < 12; ++op) {
    EXPECT_EQ(step.trace.ops.recomputable[op], op == 1 ? 1 : 0) << op;
  }
  const auto reads = step.trace.ops.reads[OpIndex{1}];
  EXPECT_EQ(std::vector(reads.begin(), reads.end()), std::vector{StorageId{0}});
  EXPECT_EQ(step.waits.size(), 2U) << "a gate is no use";
  PairedGraph twice = graph_with_twin();
  twice.pairs[1].holes.insert(twice.pairs[1].holes.begin(), {.users = {"op5"}});
  RunProfile run = run_with_twin();
  for (ProfiledStay& stay : run.stays) stay.hole += stay.hole == 42 && stay.back ? 1 : 0;
  EXPECT_EQ(make_pair_trace(run, twice).trace.ops.recomputable[1], 0)
      << "only its last wait could end with the twin";
}

TEST(PairTraceTest, TheTimeOfAConeIsThatOfTheOpThatEndsIt) {
  PairedGraph graph = graph_with_twin();
  graph.pairs[1].node = "op2";
  graph.pairs[1].early = {"op3"};
  graph.pairs[1].cone = {"op1", "op2"};
  const PairTrace step = make_pair_trace(run_with_twin(), graph);
  EXPECT_EQ(step.trace.ops.duration_ns[2], 2000);
  EXPECT_EQ(step.trace.ops.duration_ns[1], 1) << "counted once";
}

TEST(PairTraceTest, WhatIsDroppedAndRunAgainIsRecomputedAndItsSourceComesForIt) {
  const PairTrace step = make_pair_trace(run_with_twin(), graph_with_twin());
  const auto chosen = [&](std::vector<PlanAction> actions) {
    Plan plan;
    plan.actions = std::move(actions);
    return choose(step, run_with_twin(), graph_with_twin(), plan);
  };
  // Op 8 is the first user of y; before it ops 0, 2, 4, 6, 7 of the clock have begun.
  EXPECT_EQ(chosen({PlanAction::drop(OpIndex{3}, StorageId{1}),
                    PlanAction::recompute(OpIndex{8}, OpIndex{1})}),
            (std::vector<HoleChoice>{{.hole = 40, .due = 5},
                                     {.hole = 41, .due = 6},
                                     {.hole = 42, .due = 5, .recomputed = true}}))
      << "x stays";
  EXPECT_EQ(chosen({PlanAction::evict(OpIndex{3}, StorageId{0}, Tier::kHost),
                    PlanAction::drop(OpIndex{3}, StorageId{1}),
                    PlanAction::fetch(OpIndex{6}, StorageId{0}),
                    PlanAction::recompute(OpIndex{8}, OpIndex{1})}),
            (std::vector<HoleChoice>{{.hole = 40, .leaves = true, .due = 3},
                                     {.hole = 41, .due = 6},
                                     {.hole = 42, .due = 5, .recomputed = true}}))
      << "x comes back for the twin, and stays until it is used itself";
  EXPECT_EQ(chosen({PlanAction::evict(OpIndex{3}, StorageId{0}, Tier::kHost),
                    PlanAction::evict(OpIndex{3}, StorageId{1}, Tier::kHost),
                    PlanAction::fetch(OpIndex{7}, StorageId{1}),
                    PlanAction::fetch(OpIndex{9}, StorageId{0})}),
            (std::vector<HoleChoice>{{.hole = 40, .leaves = true, .due = 5},
                                     {.hole = 41, .leaves = true, .due = 6},
                                     {.hole = 42, .leaves = true, .due = 4}}))
      << "the gate stays shut, and x waits on";
}

// Maps in twos, the second of which can be made of the first; each is used by the next op and again
// on the way back.
struct TwinNetwork {
  PairedGraph graph{.first_hole = 0, .first_clock = 0};
  RunProfile run;
  std::vector<Bytes> sizes;

  TwinNetwork(std::uint64_t seed, std::size_t depth) {
    std::mt19937_64 random(seed);
    graph.clocks.emplace_back();
    for (std::size_t i = 0; i < 2 * depth; ++i) {
      const std::string name = "op" + std::to_string(i);
      // A map that can be made again is made in no time.
      const bool cheap = i < depth && i % 2 == 1;
      run.ops.push_back({.node = name,
                         .duration_ns = cheap ? 10 : TimeNs(100'000 + random() % 500'000),
                         .peak = kMiB * 200});
      graph.clocks[0].push_back(name);
    }
    std::uint64_t hole = 0;
    for (std::size_t i = 0; i < depth; ++i) {
      const std::size_t use = user_of(i, depth);
      const auto latest = static_cast<std::uint32_t>(use);
      PairName pair{.tensor = "op" + std::to_string(i),
                    .node = "op" + std::to_string(i),
                    .early = {"op" + std::to_string(i + 1)}};
      if (i % 2 == 0) {
        pair.holes.push_back({.due = latest - 1, .latest = latest - 1, .gate = i + 1});
      } else {
        pair.cone = {pair.node};
        pair.sources = {i - 1};
      }
      pair.holes.push_back(
          {.users = {"op" + std::to_string(use)}, .due = latest, .latest = latest});
      graph.pairs.push_back(pair);
      sizes.push_back(kMiB * (1 + random() % 8));
      run.stays.push_back({.hole = hole, .bytes = sizes[i], .from = i, .to = i + 1});
      hole += pair.holes.size();
    }
  }

  static std::size_t user_of(std::size_t map, std::size_t depth) { return 2 * depth - 1 - map; }

  /// What is held while each op runs.
  [[nodiscard]] std::vector<Bytes> held(const std::vector<HoleChoice>& choices) const {
    std::vector<Bytes> held(run.ops.size());
    std::uint64_t hole = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::size_t use = user_of(i, sizes.size());
      std::size_t back = i + 2;  // before this op
      if (i % 2 == 1) {
        const HoleChoice& own = choices[hole];
        // Its sources' gate says when.
        if (own.recomputed) back = choices[hole - 2].due;
        if (own.leaves) back = own.due;
      } else if (choices[hole].leaves) {
        const bool opens = choices[hole + 2].recomputed;
        EXPECT_EQ(choices[hole + 1].leaves, !opens);
        back = opens ? choices[hole].due : choices[hole + 1].due;
      }
      for (std::size_t op = i; op <= use; ++op) {
        if (op <= i + 1 || op >= back) held[op] += sizes[i];
      }
      hole += graph.pairs[i].holes.size();
    }
    return held;
  }
};

TEST(PairTraceTest, PlansThatRecomputeAreChoicesThatKeepToTheBudgetAtRandom) {
  std::size_t recomputed = 0;
  std::size_t swapped = 0;
  for (const std::string_view name : {"superneurons", "superneurons:recompute=memory", "hybrid"}) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
      TwinNetwork network(seed, 8 + 2 * (seed % 8));
      // No workspace.
      for (std::size_t op = 0; op < network.run.ops.size(); ++op) network.run.ops[op].peak = {};
      const PairTrace step = make_pair_trace(network.run, network.graph);
      ASSERT_EQ(validate(step.trace), std::nullopt);
      const Bytes budget{peak_bytes(step.trace).count * 6 / 10};
      const std::optional<Plan> plan = plan_of(name, step.trace, budget, 1e12);
      if (!plan) continue;
      const auto choices = choose(step, network.run, network.graph, *plan);
      ASSERT_EQ(choices.size(), network.graph.holes());
      for (const HoleChoice& made : choices) {
        recomputed += made.recomputed ? 1U : 0U;
        swapped += made.leaves ? 1U : 0U;
      }
      for (const Bytes held : network.held(choices)) EXPECT_LE(held, budget);
    }
  }
  EXPECT_GT(recomputed, 200U);
  EXPECT_GT(swapped, 50U);
}

}  // namespace
}  // namespace spillway::tf
