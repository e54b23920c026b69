// SPDX-License-Identifier: Apache-2.0
// Every planner on steps as training makes them, its options one by one, and what is said where
// nothing fits.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>

#include "plan_fixture.hpp"
#include "planner/planners.hpp"
#include "spillway/planning/registry.hpp"
#include "spillway/testing/small_steps.hpp"
#include "training_steps.hpp"

namespace spillway::planning {
namespace {

using testing::plain_machine;
using testing::StepBuilder;

class PlannersTest : public PlanFixture {
 protected:
  static std::uint64_t count(const Plan& plan, PlanActionKind kind) {
    return static_cast<std::uint64_t>(
        std::count_if(plan.actions.begin(), plan.actions.end(),
                      [&](const PlanAction& action) { return action.kind == kind; }));
  }

  /// The step with one option as it is by default and as given.
  static std::pair<CheckedPlan, CheckedPlan> ablate(const Planner& planner, const Problem& problem,
                                                    std::string_view option,
                                                    std::string_view value) {
    Options options(planner.options());
    const auto with = make(planner, problem, options);
    options.set(option, value);
    const auto without = make(planner, problem, options);
    EXPECT_TRUE(with && without) << planner.name() << " " << option;
    if (!with || !without) return {};
    return {*with, *without};
  }
};

TEST_F(PlannersTest, EveryPlanOfEveryPlannerKeepsToItsBudgets) {
  int plans = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    for (const bool dies : {false, true}) {
      Trace trace =
          TrainingStep(
              {.seed = seed, .layers = 5 + static_cast<int>(seed) * 3, .middle_dies = dies})
              .build();
      std::iota(trace.ops.signature.begin(), trace.ops.signature.end(), std::uint64_t{7});
      ASSERT_FALSE(validate(trace)) << *validate(trace);
      const Machine machine = machine_with_links(2e9, 1000);
      for (const double times : {1.05, 1.5, 2.5, 6.0}) {
        const Problem problem{trace, machine, budgets(trace, machine, times)};
        for (const Planner* planner : planners())
          plans += make(*planner, problem).has_value() ? 1 : 0;
      }
    }
  }
  EXPECT_GT(plans, 60);  // and not: nothing was planned, so that nothing was wrong
}

TEST_F(PlannersTest, WhatFitsIsLeftAlone) {
  const Trace trace = TrainingStep({}).build();
  const Machine machine = machine_with_links(1e9);
  const Problem problem{trace, machine, budgets(trace, machine, 1000)};
  for (const Planner* planner : {&hybrid_planner(), &swap_critical_path_planner(), &lms_planner(),
                                 &chain_recompute_planner()}) {
    const auto plan = make(*planner, problem);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->plan.actions.empty()) << planner->name();
    EXPECT_EQ(plan->report.step_ns, plan->report.compute_ns) << planner->name();
  }
}

TEST_F(PlannersTest, HybridIsNoWorseThanThePlansItStartsFrom) {
  for (const std::uint64_t seed : {4U, 5U, 6U, 7U}) {
    const Trace trace = TrainingStep({.seed = seed, .layers = 10}).build();
    const Machine machine = machine_with_links(3e9, 500);
    for (const double times : {1.3, 2.0, 4.0}) {
      const Problem problem{trace, machine, budgets(trace, machine, times)};
      std::vector<Plan> seeds;
      TimeNs best = std::numeric_limits<TimeNs>::max();
      for (const Planner* planner : planners()) {
        if (planner == &hybrid_planner()) continue;
        const PlanOutcome outcome = planner->plan(problem);
        if (const auto* plan = std::get_if<Plan>(&outcome)) {
          seeds.push_back(*plan);
          best = std::min(best, std::get<SimulationReport>(simulate(problem, *plan)).step_ns);
        }
      }
      PlanningContext context = short_search();
      context.seeds = seeds;
      const auto plan =
          make(hybrid_planner(), problem, Options(hybrid_planner().options()), context);
      ASSERT_TRUE(plan || seeds.empty());
      if (!plan) continue;
      EXPECT_LE(std::get<SimulationReport>(simulate(problem, plan->plan)).step_ns, best);
    }
  }
}

TEST_F(PlannersTest, BelowTheFloorTheOpThatBindsIsNamed) {
  const Trace trace = TrainingStep({}).build();
  const Machine machine = machine_with_links(1e9);
  const Problem problem{trace, machine, budgets(trace, machine, 0.9)};
  const Floor floor = floor_of(StepModel(problem));
  for (const Planner* planner : planners()) {
    const PlanOutcome outcome = planner->plan(problem);
    const auto* answer = std::get_if<Infeasible>(&outcome);
    ASSERT_TRUE(answer) << planner->name();
    if (planner->name() != "hybrid") continue;
    EXPECT_EQ(to_value(answer->op), floor.op);
    ASSERT_TRUE(answer->smallest_budget);
    EXPECT_EQ(answer->short_by[0], *answer->smallest_budget - problem.budgets[Tier::kDevice]);
    EXPECT_GE(answer->smallest_budget->count, floor.bytes);
    EXPECT_FALSE(answer->remedies.empty());
    Budgets enough = problem.budgets;
    enough[Tier::kDevice] = *answer->smallest_budget;
    EXPECT_TRUE(make(hybrid_planner(), problem.with(enough)));
  }
}

TEST_F(PlannersTest, WithoutHostMemoryADiskOrRecomputingIsWhatHelps) {
  const Trace trace = TrainingStep({.layers = 12, .weight_bytes = 900'000}).build();
  const Machine machine = machine_with_links(1e9);
  const Problem problem{trace, machine, budgets(trace, machine, 1.5, Bytes{0})};
  const PlanOutcome outcome = hybrid_planner().plan(problem);
  const auto* answer = std::get_if<Infeasible>(&outcome);
  ASSERT_TRUE(answer);
  EXPECT_GT(answer->short_by[index_of(Tier::kHost)].count, 0U);
  EXPECT_TRUE(std::any_of(answer->remedies.begin(), answer->remedies.end(),
                          [](const auto& text) { return text.find("disk") != std::string::npos; }));
  Budgets with_disk = problem.budgets;
  with_disk[Tier::kDisk] = kGiB;
  const auto plan = make(hybrid_planner(), problem.with(with_disk));
  ASSERT_TRUE(plan);
  EXPECT_GT(plan->report.peak[index_of(Tier::kDisk)].bytes.count, 0U);
}

// Each option of hybrid: what it is for is gone without it.
TEST_F(PlannersTest, HybridComputesAgainWhatIsCheapUnlessToldNotTo) {
  const Trace trace = TrainingStep({.seed = 9, .layers = 16}).build();
  const Machine machine = machine_with_links(5e8, 1000);
  const Problem problem{trace, machine, budgets(trace, machine, 2.5)};
  const auto [with, without] = ablate(hybrid_planner(), problem, "recompute", "off");
  EXPECT_GT(count(with.plan, PlanActionKind::kRecompute), 0U);
  EXPECT_EQ(count(without.plan, PlanActionKind::kRecompute), 0U);
  EXPECT_LT(with.report.step_ns, without.report.step_ns);
}

//   op 0          creates x, 1000 bytes
//   op 1          reads x, creates a, 1000
//   op 2          needs all 3000 bytes of the device
//   op 3          reads a, creates h, 2000
//   op 4          reads x
// The host holds one of x and a: a is made again from x before op 3, for which x has to leave.
TEST_F(PlannersTest, WhatARecomputationReadsLeavesAgainBeforeTheOp) {
  StepBuilder step;
  const StorageId x = step.temporary(1000, "x");
  const StorageId a = step.temporary(1000, "a");
  const StorageId h = step.temporary(2000, "h");
  step.op(10, {.creates = {x}});
  step.op(10, {.creates = {a}, .reads = {x}, .recomputable = true});
  step.op(10, {.workspace = 3000});
  step.op(10, {.creates = {h}, .reads = {a}, .frees = {a, h}});
  step.op(10, {.reads = {x}, .frees = {x}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  Problem problem{trace, machine, {}};
  problem.budgets[Tier::kDevice] = Bytes{3000};
  problem.budgets[Tier::kHost] = Bytes{1000};
  const auto plan = make(hybrid_planner(), problem);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->report.recomputations, 1U);
}

TEST_F(PlannersTest, WhereAPlanFitsOneFitsALargerBudgetToo) {
  const Machine machine = machine_with_links(4e9);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Trace trace =
        TrainingStep({.seed = seed, .layers = 12, .optimizer_state = false}).build();
    const Bytes host = Bytes{peak_bytes(trace).count / 3};
    bool fitted = false;
    for (const double times : {1.0, 1.02, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0}) {
      const Problem problem{trace, machine, budgets(trace, machine, times, host)};
      const auto plan = make(hybrid_planner(), problem);
      EXPECT_TRUE(plan || !fitted) << "seed " << seed << ", " << times << " times the floor";
      fitted = fitted || plan;
    }
    EXPECT_TRUE(fitted) << seed;
  }
}

TEST_F(PlannersTest, AdviceNamesOneBudget) {
  const Trace trace = TrainingStep({.seed = 3, .layers = 12, .optimizer_state = false}).build();
  const Machine machine = machine_with_links(4e9);
  // With so little on the host what an op needs at once is not enough.
  const Problem problem{trace, machine,
                        budgets(trace, machine, 0.9, Bytes{peak_bytes(trace).count / 50})};
  const PlanOutcome outcome = hybrid_planner().plan(problem);
  const auto* answer = std::get_if<Infeasible>(&outcome);
  ASSERT_NE(answer, nullptr);
  ASSERT_TRUE(answer->smallest_budget);
  Budgets roomy;
  roomy[Tier::kDevice] = Bytes{std::uint64_t{1} << 50};
  EXPECT_GT(answer->smallest_budget->count,
            floor_of(StepModel(Problem{trace, machine, roomy})).bytes);
  ASSERT_FALSE(answer->remedies.empty());
  EXPECT_NE(answer->remedies.front().find(to_string(*answer->smallest_budget)), std::string::npos)
      << answer->remedies.front();
}

TEST_F(PlannersTest, HybridSearchAndRefiningShortenTheStep) {
  const Machine machine = machine_with_links(1e9, 1000);
  const auto step_with = [&](const Trace& trace, bool search, bool refine, double price) {
    const Problem problem{trace, machine, budgets(trace, machine, 2.0)};
    Options options(hybrid_planner().options());
    options.set("search", OptionValue(search));
    options.set("refine", OptionValue(refine));
    options.set("link-price", OptionValue(price));
    PlanningContext context = short_search();
    context.time_limit_ns = 4000;
    const auto plan = make(hybrid_planner(), problem, options, context);
    EXPECT_TRUE(plan);
    return plan ? plan->report.step_ns : 0;
  };
  TimeNs searched = 0;
  TimeNs unsearched = 0;
  int other_plans = 0;
  for (std::uint64_t seed = 9; seed <= 12; ++seed) {
    const Trace trace = TrainingStep({.seed = seed, .layers = 16}).build();
    const TimeNs plain = step_with(trace, false, false, 0.2);
    const TimeNs with_search = step_with(trace, true, false, 0.2);
    EXPECT_LE(with_search, plain);
    EXPECT_LE(step_with(trace, false, true, 0.2), plain);
    searched += with_search;
    unsearched += plain;
    other_plans += step_with(trace, false, false, 20) != plain ? 1 : 0;
  }
  EXPECT_LT(searched, unsearched);
  EXPECT_GT(other_plans, 0);  // other links' prices, other plans
}

TEST_F(PlannersTest, HybridRefiningMendsWhatThePassCannotTakeBack) {
  double with = 0;
  double without = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Trace trace = TrainingStep({.seed = seed, .layers = 3, .optimizer_state = false}).build();
    const Machine machine = machine_with_links(1e9);
    const Problem problem{trace, machine, budgets(trace, machine, 1.3)};
    Options options(hybrid_planner().options());
    options.set("search", OptionValue(false));
    PlanningContext context = short_search();
    context.time_limit_ns = 4000;
    const auto refined = make(hybrid_planner(), problem, options, context);
    options.set("refine", OptionValue(false));
    const auto plain = make(hybrid_planner(), problem, options, context);
    ASSERT_TRUE(refined && plain);
    EXPECT_LE(refined->report.step_ns, plain->report.step_ns);
    with += static_cast<double>(refined->report.step_ns);
    without += static_cast<double>(plain->report.step_ns);
  }
  EXPECT_LT(with, without);
}

TEST_F(PlannersTest, HybridCopiesAheadOfNeed) {
  const Trace trace =
      TrainingStep({.seed = 9, .layers = 16, .heavy_ns = 4e6, .light_ns = 1e6}).build();
  const Machine machine = machine_with_links(2e9, 1000);
  const Problem problem{trace, machine, budgets(trace, machine, 4.0)};
  const auto step_with = [&](std::string_view off) {
    Options options(hybrid_planner().options());
    for (const std::string_view option : {"recompute", "search", "refine", "borrow"}) {
      options.set(option, OptionValue(false));
    }
    if (!off.empty()) options.set(off, OptionValue(false));
    const auto plan = make(hybrid_planner(), problem, options);
    EXPECT_TRUE(plan) << off;
    return plan ? plan->report.step_ns : 0;
  };
  const TimeNs all = step_with("");
  EXPECT_LT(all, step_with("prefetch"));
  EXPECT_LT(all, step_with("early-eviction"));
}

TEST_F(PlannersTest, HybridKeepsWhatOutlivesTheStepWhenToldTo) {
  const Trace trace = TrainingStep({.layers = 12, .weight_bytes = 2'000'000}).build();
  const Machine machine = machine_with_links(5e9);
  const Problem problem{trace, machine, budgets(trace, machine, 3.0)};
  const auto plan = make(hybrid_planner(), problem);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->plan.places.empty());
  Options options(hybrid_planner().options());
  options.set("persistent", OptionValue(false));
  EXPECT_FALSE(make(hybrid_planner(), problem, options));
}

// A gradient goes on into the next step, which frees it untouched: after its last use it is given
// up, and the step begins with it nowhere.
//   op        0     1     2     3
//   old  60   f                         what gradient is in the next step
//   gradient        c     r
//   a 60                        c f
TEST_F(PlannersTest, WhatTheNextStepFreesUnusedIsGivenUpInThisOne) {
  StepBuilder step;
  const StorageId old = step.temporary(60, "old gradient");
  const StorageId fresh = step.temporary(60, "gradient");
  const StorageId a = step.temporary(60, "a");
  step.op(100, {.frees = {old}});
  step.op(100, {.creates = {fresh}});
  step.op(100, {.reads = {fresh}});
  step.op(100, {.creates = {a}, .frees = {a}});
  step.trace().storages.continues[to_value(fresh)] = old;
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  const Problem problem{trace, machine, {{Bytes{100}, Bytes{0}, Bytes{0}}}};
  Options options(hybrid_planner().options());
  options.set("borrow", OptionValue(false));
  const auto plan = make(hybrid_planner(), problem, options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(count(plan->plan, PlanActionKind::kDrop), 1U);
  EXPECT_EQ(plan->plan.places, (std::vector{PlanPlace{.storage = old}}));
  EXPECT_EQ(plan->report.step_ns, plan->report.compute_ns);

  step.trace().ops.reads.items.push_back(old);  // by the last op
  step.trace().ops.reads.offsets.back() += 1;
  step.trace().ops.frees = {};
  Plan used = plan->plan;
  used.structure = structure_hash(step.trace());
  const auto flaw = validate(used, step.trace(), problem.budgets);
  ASSERT_TRUE(flaw);
  EXPECT_EQ(flaw->flaw, PlanFlaw::kPlacedNowhere);
}

// w is read, is pushed out after the turn of the step, and has a clean copy from then on: the plan
// must say that it begins with one.
//   op      0     1     2
//   w 50    .     .     r         read only
//   a 60    c f                   needs w's room in every step
//   b 60          c f
TEST_F(PlannersTest, WhatLeavesAtTheBeginningOfAStepKeepsItsCopy) {
  StepBuilder step;
  const StorageId w = step.persistent(50, "w");
  const StorageId a = step.temporary(60, "a");
  const StorageId b = step.temporary(60, "b");
  step.op(100, {});
  step.op(100, {.creates = {a}, .frees = {a}});
  step.op(100, {.creates = {b}, .frees = {b}});
  step.op(100, {.reads = {w}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  const Problem problem{trace, machine, {{Bytes{100}, Bytes{100}, Bytes{0}}}};
  for (const Planner* planner : planners()) (void)make(*planner, problem);
  EXPECT_TRUE(make(unified_memory_planner(), problem));
  EXPECT_TRUE(make(lru_planner(), problem));
}

TEST_F(PlannersTest, HybridBorrowsAPlanThatItsOwnPassDoesNotFind) {
  double with = 0;
  double without = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Trace trace = TrainingStep({.seed = seed, .layers = 6}).build();
    const Machine machine = machine_with_links(2e9);
    const Problem problem{trace, machine, budgets(trace, machine, 1.6)};
    Options options(hybrid_planner().options());
    for (const std::string_view off : {"search", "refine"}) options.set(off, OptionValue(false));
    options.set("link-price", OptionValue(20.0));  // a bad plan of its own
    const auto borrowed = make(hybrid_planner(), problem, options);
    options.set("borrow", OptionValue(false));
    const auto own = make(hybrid_planner(), problem, options);
    ASSERT_TRUE(borrowed && own);
    EXPECT_LE(borrowed->report.step_ns, own->report.step_ns);
    with += static_cast<double>(borrowed->report.step_ns);
    without += static_cast<double>(own->report.step_ns);
  }
  EXPECT_LT(with, without);
}

// The least recently used one is a parameter, which never leaves.
//   op      0     1     2     3     4
//   w 20    r
//   a 50    c     r                 r f
//   b 50          c     r     r f
//   c 50                c     r f
TEST_F(PlannersTest, TheTensorCacheOfSuperneuronsPassesOverWhatMustStay) {
  StepBuilder step;
  const StorageId w = step.persistent(20, "w");
  const StorageId a = step.temporary(50, "a");
  const StorageId b = step.temporary(50, "b");
  const StorageId c = step.temporary(50, "c");
  step.op(1000, {.creates = {a}, .reads = {w}});
  step.op(1000, {.creates = {b}, .reads = {a}});
  step.op(1000, {.creates = {c}, .reads = {b}});
  step.op(1000, {.reads = {b, c}, .frees = {b, c}});
  step.op(1000, {.reads = {a}, .frees = {a}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  const Problem problem{trace, machine, {{Bytes{130}, Bytes{200}, Bytes{0}}}};
  const auto plan = make(superneurons_planner(), problem);
  ASSERT_TRUE(plan);
  EXPECT_EQ(count(plan->plan, PlanActionKind::kEvict), 1U);
}

// A normalisation's output that its activation function changes in place leaves after that.
//   op      0     1     2     3     4     5
//   a 60    c     w     r                 r f
//   b 60                c     r f
//   c 60                      c     r f
//   d 5                             c     r f     so that op 5 is levels away from op 1
TEST_F(PlannersTest, LmsSwapsWhatWasWrittenInPlace) {
  StepBuilder step;
  const StorageId a = step.temporary(60, "a");
  const StorageId b = step.temporary(60, "b");
  const StorageId c = step.temporary(60, "c");
  const StorageId d = step.temporary(5, "d");
  step.op(1000, {.creates = {a}});
  step.op(1000, {.reads = {a}, .writes = {a}});
  step.op(1000, {.creates = {b}, .reads = {a}});
  step.op(1000, {.creates = {c}, .reads = {b}, .frees = {b}});
  step.op(1000, {.creates = {d}, .reads = {c}, .frees = {c}});
  step.op(1000, {.reads = {a, d}, .frees = {a, d}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  const Problem problem{trace, machine, {{Bytes{130}, Bytes{200}, Bytes{0}}}};
  const auto plan = make(lms_planner(), problem);
  ASSERT_TRUE(plan);
  EXPECT_EQ(count(plan->plan, PlanActionKind::kEvict), 1U);
}

TEST_F(PlannersTest, HybridDiskOptionForbidsTheDisk) {
  const Trace trace = TrainingStep({.layers = 12, .weight_bytes = 900'000}).build();
  const Machine machine = machine_with_links(1e9);
  Problem problem{trace, machine, budgets(trace, machine, 1.5, Bytes{0})};
  problem.budgets[Tier::kDisk] = kGiB;
  EXPECT_TRUE(make(hybrid_planner(), problem));
  Options options(hybrid_planner().options());
  options.set("disk", OptionValue(false));
  EXPECT_FALSE(make(hybrid_planner(), problem, options));
}

TEST_F(PlannersTest, WorkspaceIsChosenByWhatFits) {
  Trace trace = TrainingStep({.layers = 6}).build();
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    if (trace.ops.name[op] != "conv") continue;
    // Half the time with a workspace of half a megabyte.
    AlternativeLists& lists = trace.ops.alternatives;
    lists.items.insert(lists.items.begin() + static_cast<std::ptrdiff_t>(lists.offsets[op]),
                       OpAlternative{trace.ops.duration_ns[op] / 2, Bytes{500'000}});
    for (std::size_t i = op + 1; i < lists.offsets.size(); ++i) ++lists.offsets[i];
  }
  ASSERT_FALSE(validate(trace)) << *validate(trace);
  const Machine machine = machine_with_links(5e9);
  const Problem problem{trace, machine, budgets(trace, machine, 5.0)};
  for (const Planner* planner : {&hybrid_planner(), &superneurons_planner()}) {
    const auto [with, without] = ablate(*planner, problem, "workspace", "off");
    EXPECT_GT(count(with.plan, PlanActionKind::kChoose), 0U) << planner->name();
    EXPECT_EQ(count(without.plan, PlanActionKind::kChoose), 0U) << planner->name();
    EXPECT_LT(with.report.step_ns, without.report.step_ns) << planner->name();
  }
}

// Of some ops the first makes what the last reads, and one in between needs its room.
struct FarUse {
  FarUse(int ops, int crowded) {
    StepBuilder step;
    map = step.temporary(1000, "map");
    step.op(1000, {.creates = {map}});
    for (int op = 1; op < ops - 1; ++op) step.op(1000, {.workspace = op == crowded ? 1000U : 0U});
    step.op(1000, {.reads = {map}, .frees = {map}});
    trace = step.build();
    budgets[Tier::kDevice] = Bytes{1500};
    budgets[Tier::kHost] = Bytes{5000};
  }
  [[nodiscard]] Problem problem() const { return {trace, machine, budgets}; }

  StorageId map{};
  Trace trace;
  Machine machine = plain_machine();
  Budgets budgets;
};

TEST_F(PlannersTest, PartitionedKeepsToThePartitionsOfWhoRunsTheStep) {
  const FarUse step(12, 3);
  const std::vector<std::uint32_t> partitions{0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3};
  PlanningContext context = short_search();
  context.partitions = partitions;
  for (const auto& [ahead, fetched] : {std::pair("0", 9U), {"1", 5U}}) {
    Options options(partitioned_planner().options());
    options.set("ahead", std::string_view(ahead));
    const auto plan = make(partitioned_planner(), step.problem(), options, context);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->plan.actions, (std::vector{PlanAction::evict(OpIndex{3}, step.map, Tier::kHost),
                                               PlanAction::fetch(OpIndex{fetched}, step.map)}));
  }
}

// All of the step is one partition there, in which nothing is far from its use.
TEST_F(PlannersTest, PartitionedCutsTheirsWhereTheyAreTooLarge) {
  const FarUse step(21, 8);
  const std::vector<std::uint32_t> partitions(21, 0);
  PlanningContext context = short_search();
  context.partitions = partitions;
  Options options(partitioned_planner().options());
  EXPECT_TRUE(make(partitioned_planner(), step.problem(), options, context));
  options.set("partition-size", std::string_view("5"));
  EXPECT_FALSE(make(partitioned_planner(), step.problem(), options, context)) << "as asked";
}

}  // namespace
}  // namespace spillway::planning
