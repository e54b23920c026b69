// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/sim/simulator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spillway/base/error.hpp"
#include "spillway/plan/validator.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::planning {
namespace {

using spillway::testing::plain_machine;
using spillway::testing::StepBuilder;
using ::testing::HasSubstr;

// One byte takes one nanosecond on every link, so bytes and times can be compared at sight.
//
//   op            0     1     2     3     4     5        duration 100 each
//   a   60        c     .     .     .     r f   .
//   b   30              c     r     r f   .     .
//   w   10        r     .     .     .     .     r w      persistent
//                 70    100   100   100   70    10       alive
class SimulatorTest : public ::testing::Test {
 protected:
  SimulatorTest() {
    w_ = step_.persistent(10, "w");
    a_ = step_.temporary(60, "a");
    b_ = step_.temporary(30, "b");
    step_.op(100, {.creates = {a_}, .reads = {w_}, .recomputable = true});
    step_.op(100, {.creates = {b_}});
    step_.op(100, {.reads = {b_}});
    step_.op(100, {.reads = {b_}, .frees = {b_}});
    step_.op(100, {.reads = {a_}, .frees = {a_}});
    step_.op(100, {.reads = {w_}, .writes = {w_}});
    budgets_ = {{Bytes{100}, Bytes{1000}, Bytes{1000}}};
  }

  SimulationOutcome outcome(std::vector<PlanAction> actions, bool checked = true,
                            std::vector<PlanPlace> places = {}) {
    trace_ = step_.build();
    Plan plan;
    plan.structure = structure_hash(trace_);
    plan.actions = std::move(actions);
    plan.places = std::move(places);
    if (checked) {
      const auto problem = validate(plan, trace_, budgets_);
      EXPECT_FALSE(problem) << problem->text;
    }
    return simulate({trace_, machine_, budgets_}, plan, {.timeline = true});
  }
  SimulationReport report(std::vector<PlanAction> actions, std::vector<PlanPlace> places = {}) {
    const auto result = outcome(std::move(actions), true, std::move(places));
    if (const auto* failure = std::get_if<SimulationFailure>(&result)) {
      ADD_FAILURE() << failure->reason;
      return {};
    }
    const auto& report = std::get<SimulationReport>(result);
    TimeNs stalls = 0;
    for (const TimeNs stall : report.stall_ns) stalls += stall;
    EXPECT_EQ(report.step_ns, report.compute_ns + stalls);
    return report;
  }
  static TimeNs stall(const SimulationReport& report, StallCause cause) {
    return report.stall_ns[index_of(cause)];
  }

  StepBuilder step_;
  StorageId w_{}, a_{}, b_{};
  Machine machine_ = plain_machine();
  Budgets budgets_;
  Trace trace_;
};

TEST_F(SimulatorTest, WithoutActionsAStepTakesItsOps) {
  const SimulationReport result = report({});
  EXPECT_EQ(result.step_ns, 600);
  EXPECT_EQ(result.compute_ns, 600);
  EXPECT_EQ(result.peak[0].bytes, Bytes{100});
  EXPECT_EQ(result.peak[0].op, OpIndex{1});
  EXPECT_EQ(result.peak[1].bytes, Bytes{0});
}

// compute   | op0 | op1 | op2 | op3 | op4 | op5 |
// out             |=a=|
// in                          |=a=|
TEST_F(SimulatorTest, ACopyBehindComputingCostsNothing) {
  const SimulationReport result =
      report({PlanAction::evict(OpIndex{1}, a_, Tier::kHost), PlanAction::fetch(OpIndex{3}, a_)});
  EXPECT_EQ(result.step_ns, 600);
  EXPECT_EQ(result.evictions, 1U);
  EXPECT_EQ(result.fetches, 1U);
  EXPECT_EQ(result.demand_fetches, 0U);
  EXPECT_EQ(result.evicted, Bytes{60});
  EXPECT_EQ(result.links[index_of(LinkKind::kDeviceToHost)].busy_ns, 60);
  EXPECT_EQ(result.links[index_of(LinkKind::kHostToDevice)].bytes, Bytes{60});
  EXPECT_EQ(result.peak[index_of(Tier::kHost)].bytes, Bytes{60});
}

// Budget 75. b does not fit before a has left, 60 later; the fetch waits for b's death.
// compute   | op0 |stall| op1 | op2 | op3 |stall| op4 | op5 |
// out             |==a==|
// in                                      |==a==|
TEST_F(SimulatorTest, AnAllocationWaitsForTheEvictionThatMakesRoom) {
  budgets_[Tier::kDevice] = Bytes{75};
  const SimulationReport result =
      report({PlanAction::evict(OpIndex{1}, a_, Tier::kHost), PlanAction::fetch(OpIndex{2}, a_)});
  EXPECT_EQ(stall(result, StallCause::kAllocation), 60);
  EXPECT_EQ(stall(result, StallCause::kInput), 60);
  EXPECT_EQ(result.step_ns, 720);
  EXPECT_EQ(result.peak[0].bytes, Bytes{70});
}

TEST_F(SimulatorTest, WhatNobodyFetchedIsFetchedOnDemand) {
  budgets_[Tier::kDevice] = Bytes{75};
  const SimulationReport result = report({PlanAction::evict(OpIndex{1}, a_, Tier::kHost)});
  EXPECT_EQ(result.demand_fetches, 1U);
  EXPECT_EQ(stall(result, StallCause::kDemandFetch), 60);
}

// A parameter that was not written since it was fetched leaves for nothing.
TEST_F(SimulatorTest, ACleanStorageLeavesWithoutACopy) {
  PlanPlace begins_clean{.storage = w_};
  begins_clean.add(Tier::kHost);
  const SimulationReport result =
      report({PlanAction::fetch(OpIndex{0}, w_), PlanAction::evict(OpIndex{1}, w_, Tier::kHost),
              PlanAction::fetch(OpIndex{4}, w_), PlanAction::evict(OpIndex{6}, w_, Tier::kHost)},
             {begins_clean});
  EXPECT_EQ(result.clean_evictions, 1U) << "after op 0";
  EXPECT_EQ(result.evictions, 1U) << "after op 5, which wrote it";
  // Its eviction of the step before goes on into this one and holds its way back up: the storage
  // stays instead, and the step waits for nothing.
  EXPECT_EQ(stall(result, StallCause::kInput), 0);
}

TEST_F(SimulatorTest, ARecomputationBringsBackWhatWasDropped) {
  budgets_[Tier::kDevice] = Bytes{75};
  const SimulationReport result =
      report({PlanAction::drop(OpIndex{1}, a_), PlanAction::recompute(OpIndex{4}, OpIndex{0})});
  EXPECT_EQ(result.step_ns, 700);
  EXPECT_EQ(result.recomputations, 1U);
  EXPECT_EQ(stall(result, StallCause::kRecompute), 100);
  EXPECT_EQ(result.dropped, Bytes{60});
  EXPECT_EQ(result.peak[0].bytes, Bytes{70});
}

TEST_F(SimulatorTest, AWaitHoldsComputingUp) {
  const SimulationReport result =
      report({PlanAction::evict(OpIndex{1}, a_, Tier::kHost), PlanAction::wait(OpIndex{1}, a_),
              PlanAction::fetch(OpIndex{3}, a_)});
  EXPECT_EQ(stall(result, StallCause::kWait), 60);
  EXPECT_EQ(result.step_ns, 660);
}

// out        |=a=|          through the host, which holds it until the disk has it
// to disk        |=a=|
// from disk             |=a=|
// in                        |=a=|
TEST_F(SimulatorTest, TheDiskLiesBehindTheHost) {
  const SimulationReport result =
      report({PlanAction::evict(OpIndex{1}, a_, Tier::kDisk), PlanAction::fetch(OpIndex{3}, a_)});
  for (const LinkKind link : kLinks) {
    EXPECT_EQ(result.links[index_of(link)].bytes, Bytes{60}) << to_string(link);
  }
  EXPECT_EQ(result.peak[index_of(Tier::kHost)].bytes, Bytes{60});
  EXPECT_EQ(result.peak[index_of(Tier::kDisk)].bytes, Bytes{60});
  EXPECT_EQ(stall(result, StallCause::kInput), 20) << "120 of two legs less op 3";
}

TEST_F(SimulatorTest, WithoutAHostTheDeviceHoldsItUntilTheDiskHasIt) {
  budgets_ = {{Bytes{75}, Bytes{0}, Bytes{60}}};
  const SimulationReport result = report({PlanAction::evict(OpIndex{1}, a_, Tier::kDisk)});
  EXPECT_EQ(stall(result, StallCause::kAllocation), 120);
  EXPECT_EQ(result.peak[index_of(Tier::kHost)].bytes, Bytes{0});
}

TEST_F(SimulatorTest, WithoutLinksToAHostOnlyTheDisksCount) {
  machine_.links[0].reset();
  machine_.links[1].reset();
  budgets_ = {{Bytes{75}, Bytes{0}, Bytes{60}}};
  const SimulationReport result = report({PlanAction::evict(OpIndex{1}, a_, Tier::kDisk)});
  EXPECT_EQ(stall(result, StallCause::kAllocation), 60);
  EXPECT_EQ(stall(result, StallCause::kDemandFetch), 60);
  EXPECT_THROW((void)outcome({PlanAction::evict(OpIndex{1}, a_, Tier::kHost)}, false), UserError);
}

TEST_F(SimulatorTest, ADemotionFreesTheHost) {
  const SimulationReport result =
      report({PlanAction::evict(OpIndex{1}, a_, Tier::kHost), PlanAction::demote(OpIndex{2}, a_)});
  EXPECT_EQ(result.links[index_of(LinkKind::kHostToDisk)].bytes, Bytes{60});
  EXPECT_EQ(result.demand_fetches, 1U);
  EXPECT_EQ(stall(result, StallCause::kDemandFetch), 120);
}

TEST_F(SimulatorTest, AnOpThatDoesNotFitSaysWhatIsShort) {
  budgets_[Tier::kDevice] = Bytes{75};
  const auto result = outcome({}, false);
  const auto& failure = std::get<SimulationFailure>(result);
  EXPECT_EQ(failure.op, OpIndex{1});
  EXPECT_EQ(failure.tier, Tier::kDevice);
  EXPECT_EQ(failure.need, Bytes{100});
  EXPECT_EQ(failure.short_by(), Bytes{25});
  EXPECT_THAT(failure.reason, HasSubstr("no room for what the op creates"));
}

TEST_F(SimulatorTest, AHostThatIsFullIsNamed) {
  budgets_ = {{Bytes{75}, Bytes{50}, Bytes{0}}};
  const auto result = outcome({PlanAction::evict(OpIndex{1}, a_, Tier::kHost)}, false);
  const auto& failure = std::get<SimulationFailure>(result);
  EXPECT_EQ(failure.tier, Tier::kHost);
  EXPECT_EQ(failure.short_by(), Bytes{10});
  EXPECT_THAT(failure.reason, HasSubstr("storage 1 (a)"));
}

TEST_F(SimulatorTest, WhatIsNowhereIsNamed) {
  const auto result = outcome({PlanAction::drop(OpIndex{1}, a_)}, false);
  EXPECT_THAT(std::get<SimulationFailure>(result).reason, HasSubstr("lies on no tier"));
}

TEST_F(SimulatorTest, WorkspaceAndAlternativesCount) {
  step_.trace().ops.workspace[4] = Bytes{35};
  EXPECT_EQ(std::get<SimulationFailure>(outcome({}, false)).op, OpIndex{4});
  step_.trace().ops.alternatives = {};
  for (std::size_t op = 0; op < 6; ++op) {
    const OpAlternative slow{.duration_ns = 150, .workspace = {5}};
    step_.trace().ops.alternatives.append(
        std::span(&slow, op == 4 ? std::size_t{1} : std::size_t{0}));
  }
  const SimulationReport result = report({PlanAction::choose(OpIndex{4}, 0)});
  EXPECT_EQ(result.step_ns, 650);
  EXPECT_EQ(result.compute_ns, 650);
}

TEST_F(SimulatorTest, PageFaultsCostForEveryPage) {
  budgets_[Tier::kDevice] = Bytes{75};
  trace_ = step_.build();
  Plan plan;
  plan.structure = structure_hash(trace_);
  plan.actions = {PlanAction::evict(OpIndex{1}, a_, Tier::kHost)};
  plan.page_fault_ns = 1'000;
  const auto result = simulate({trace_, machine_, budgets_}, plan);
  EXPECT_EQ(stall(std::get<SimulationReport>(result), StallCause::kDemandFetch), 1'060);
}

TEST_F(SimulatorTest, TheTimelineHasABarForAllThatTakesTime) {
  budgets_[Tier::kDevice] = Bytes{75};
  const SimulationReport result = report({PlanAction::evict(OpIndex{1}, a_, Tier::kHost)});
  TimeNs ops = 0;
  TimeNs stalls = 0;
  TimeNs copies = 0;
  for (const TimelineSpan& span : result.timeline.spans) {
    const TimeNs time = span.end - span.begin;
    if (span.kind == TimelineSpan::Kind::kOp) ops += time;
    if (span.kind == TimelineSpan::Kind::kStall) stalls += time;
    if (span.kind == TimelineSpan::Kind::kCopy) copies += time;
  }
  EXPECT_EQ(ops, 600);
  EXPECT_EQ(stalls, 120);
  EXPECT_EQ(copies, 120);
  Bytes most{};
  for (const TimelineLevel& level : result.timeline.levels) most = std::max(most, level.bytes[0]);
  EXPECT_EQ(most, result.peak[0].bytes);
}

// A gradient made in one step and freed in the next: g goes on as h.
//   op     0     1
//   h 40   f           left over
//   g 40         c     goes on as h
TEST(SimulatorStepsTest, WhatGoesOnKeepsItsBytes) {
  StepBuilder step;
  const StorageId h = step.temporary(40, "h");
  const StorageId g = step.temporary(40, "g");
  step.op(100, {.frees = {h}});
  step.op(100, {.creates = {g}});
  step.trace().storages.continues[to_value(g)] = h;
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  Plan plan;
  plan.structure = structure_hash(trace);
  const Problem problem{trace, machine, {{Bytes{40}, Bytes{40}, Bytes{0}}}};
  EXPECT_EQ(validate(plan, trace, problem.budgets), std::nullopt);
  auto result = simulate(problem, plan, {.steps = 3});
  EXPECT_EQ(std::get<SimulationReport>(result).step_ns, 200);

  PlanPlace on_host{.storage = h};
  on_host.add(Tier::kHost);
  plan.places = {on_host};
  plan.actions = {PlanAction::evict(OpIndex{2}, g, Tier::kHost)};
  EXPECT_EQ(validate(plan, trace, problem.budgets), std::nullopt);
  result = simulate(problem, plan, {.steps = 3});
  const auto& report = std::get<SimulationReport>(result);
  EXPECT_EQ(report.step_ns, 200) << "to free it, it need not come back";
  EXPECT_EQ(report.fetches, 0U);
  EXPECT_EQ(report.evictions, 1U);
}

// norm's output is dead when relu is to run again: a recomputation just before makes it for it.
//   op       0       1       2        3
//   x  10    c       r f     .        .
//   y  10            c       .        r f
TEST(SimulatorStepsTest, RecomputationsMakeWhatTheyNeedForEachOther) {
  StepBuilder step;
  const StorageId x = step.temporary(10, "x");
  const StorageId y = step.temporary(10, "y");
  const OpIndex norm = step.op(100, {.creates = {x}, .recomputable = true});
  const OpIndex relu =
      step.op(100, {.creates = {y}, .reads = {x}, .frees = {x}, .recomputable = true});
  step.op(100, {.workspace = 20});
  step.op(100, {.reads = {y}, .frees = {y}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  Plan plan;
  plan.structure = structure_hash(trace);
  plan.actions = {PlanAction::drop(OpIndex{2}, y), PlanAction::recompute(OpIndex{3}, norm),
                  PlanAction::recompute(OpIndex{3}, relu)};
  const Problem problem{trace, machine, {{Bytes{20}, Bytes{0}, Bytes{0}}}};
  const auto flaw = validate(plan, trace, problem.budgets);
  EXPECT_FALSE(flaw) << flaw->text;
  const auto result = simulate(problem, plan);
  const auto& report = std::get<SimulationReport>(result);
  EXPECT_EQ(report.step_ns, 600);
  EXPECT_EQ(report.peak[0].bytes, Bytes{20});
}

// Budget 100. When y has left there is room for c, and writing w gives up w's copy on the host, at
// which copies are begun that can be. x, whose fetch waits, must not take c's room then.
//   op       0     1     2     3     4
//   w  10          w                          persistent; on the device and the host
//   x  20                r                    persistent; on the host
//   y  40    c                 r f            leaves for the host before op 1, then z
//   z  40    c                       r f
//   c  35          c f
TEST(SimulatorStepsTest, WhatAnOpCreatesTakesItsRoomBeforeFetchesDo) {
  StepBuilder step;
  const StorageId w = step.persistent(10, "w");
  const StorageId x = step.persistent(20, "x");
  const StorageId y = step.temporary(40, "y");
  const StorageId z = step.temporary(40, "z");
  const StorageId c = step.temporary(35, "c");
  step.op(100, {.creates = {y, z}});
  step.op(100, {.creates = {c}, .writes = {w}, .frees = {c}});
  step.op(100, {.reads = {x}});
  step.op(100, {.reads = {y}, .frees = {y}});
  step.op(100, {.reads = {z}, .frees = {z}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  Plan plan;
  plan.structure = structure_hash(trace);
  plan.places = {{.storage = w}, {.storage = x}};
  plan.places[0].add(Tier::kDevice);
  plan.places[0].add(Tier::kHost);
  plan.places[1].add(Tier::kHost);
  plan.actions = {PlanAction::evict(OpIndex{1}, y, Tier::kHost),
                  PlanAction::evict(OpIndex{1}, z, Tier::kHost),
                  PlanAction::fetch(OpIndex{1}, x),
                  PlanAction::evict(OpIndex{3}, x, Tier::kHost),
                  PlanAction::evict(OpIndex{3}, w, Tier::kHost),
                  PlanAction::fetch(OpIndex{3}, y),
                  PlanAction::fetch(OpIndex{4}, z),
                  PlanAction::fetch(OpIndex{4}, w)};
  const Problem problem{trace, machine, {{Bytes{100}, Bytes{1000}, Bytes{0}}}};
  const auto flaw = validate(plan, trace, problem.budgets);
  EXPECT_FALSE(flaw) << flaw->text;
  const auto result = simulate(problem, plan);
  EXPECT_EQ(std::get<SimulationReport>(result).peak[0].bytes, Bytes{90});
}

// Budget 100. d was wanted and is not any more when op 1 needs h: what d holds is free when its
// second leg is through, which must not wait behind h, which waits for that room.
// compute        |0|        stall            | op 1 |
// disk-to-host   |===d===|
// host-to-device         |===d===|===h===|
TEST(SimulatorStepsTest, ASecondLegDoesNotWaitForTheRoomThatItHolds) {
  StepBuilder step;
  const StorageId d = step.persistent(60, "d");
  const StorageId h = step.persistent(50, "h");
  step.op(10, {});
  step.op(100, {.reads = {h}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  Plan plan;
  plan.structure = structure_hash(trace);
  plan.places = {{.storage = d}, {.storage = h}};
  plan.places[0].add(Tier::kDisk);
  plan.places[1].add(Tier::kHost);
  plan.actions = {PlanAction::fetch(OpIndex{0}, d), PlanAction::evict(OpIndex{1}, d, Tier::kDisk),
                  PlanAction::evict(OpIndex{2}, h, Tier::kHost)};
  const Problem problem{trace, machine, {{Bytes{100}, Bytes{1000}, Bytes{1000}}}};
  const auto flaw = validate(plan, trace, problem.budgets);
  EXPECT_FALSE(flaw) << flaw->text;
  const auto result = simulate(problem, plan);
  ASSERT_TRUE(std::holds_alternative<SimulationReport>(result));
  EXPECT_EQ(std::get<SimulationReport>(result).step_ns, 10 + 160 + 100);
}

// A host of 60 bytes: b fits if nothing of a lies there any more.
//
//   op            0     1     2     3     4              duration 100 each
//   a   60        c     .    (r)    .     r f            read by op 2 if `back`
//   b   50        .     c     .     .     r f
class ScarceHostTest : public ::testing::Test {
 protected:
  SimulationReport report(bool back, std::vector<PlanAction> actions) {
    StepBuilder step;
    const StorageId a = step.temporary(60, "a");
    const StorageId b = step.temporary(50, "b");
    step.op(100, {.creates = {a}});
    step.op(100, {.creates = {b}});
    step.op(100, {.reads = back ? std::vector{a} : std::vector<StorageId>{}});
    step.op(100, {});
    step.op(100, {.reads = {a, b}, .frees = {a, b}});
    const Trace trace = step.build();
    const Budgets budgets{{Bytes{1000}, Bytes{60}, Bytes{1000}}};
    Plan plan;
    plan.structure = structure_hash(trace);
    plan.actions = std::move(actions);
    const auto problem = validate(plan, trace, budgets);
    EXPECT_FALSE(problem) << problem->text;
    const auto outcome = simulate({trace, plain_machine(), budgets}, plan);
    if (const auto* failure = std::get_if<SimulationFailure>(&outcome)) {
      ADD_FAILURE() << failure->reason;
      return {};
    }
    return std::get<SimulationReport>(outcome);
  }
  static constexpr StorageId kA{0};
  static constexpr StorageId kB{1};
};

// Op 2 needs a before the disk has it, so a comes back from the host, which keeps its copy: until b
// lacks the room.
// compute        | op0 | op1 |stall| op2 |wait| op3 |stall| op4 |
// out                  |=a=|             |=b==|
// to disk                  |=a=|
// in                           |=a=|                |==b==|
TEST_F(ScarceHostTest, WhatCameBackOnItsWayToTheDiskKeepsNoRoomThatOthersLack) {
  const SimulationReport result = report(
      true, {PlanAction::evict(OpIndex{1}, kA, Tier::kDisk),
             PlanAction::evict(OpIndex{3}, kB, Tier::kHost), PlanAction::wait(OpIndex{3}, kB)});
  EXPECT_EQ(result.stall_ns[index_of(StallCause::kDemandFetch)], 80 + 50);
  EXPECT_EQ(result.stall_ns[index_of(StallCause::kWait)], 50);
  EXPECT_EQ(result.step_ns, 680);
  EXPECT_EQ(result.peak[index_of(Tier::kHost)].bytes, Bytes{60});
}

// compute        | op0 | op1 | op2 |wait| op3 |stall| op4 |
// out                  |=a=|       |=b==|
// in                                          |==b==|
TEST_F(ScarceHostTest, WhatIsForgottenWhileItLeavesHasNoCopyThen) {
  const SimulationReport result = report(
      false, {PlanAction::evict(OpIndex{1}, kA, Tier::kHost), PlanAction::fetch(OpIndex{1}, kA),
              PlanAction::forget(OpIndex{1}, kA), PlanAction::evict(OpIndex{3}, kB, Tier::kHost),
              PlanAction::wait(OpIndex{3}, kB)});
  EXPECT_EQ(result.stall_ns[index_of(StallCause::kDemandFetch)], 50);
  EXPECT_EQ(result.stall_ns[index_of(StallCause::kWait)], 50);
  EXPECT_EQ(result.step_ns, 600);
}

// Device 120, host 40. x passes through the host, which has no room for y until the disk has x. The
// fetch of v waits for w's death, and that of y behind it: until then op 1 has y's room, though y
// still lies there when it is fetched. v keeps its copy on the disk and leaves without one.
//
//   op       0     1     2     3     4              duration 100 each
//   v 110    .     .     r     .     .              persistent; on the disk
//   w  30    c     f
//   x  40    c     .     .     .     f
//   y  40    c     .     .     r f
//   z  60          c f
//
// compute        | op0 |   stall   | op1 |  stall  | op2 |stall| op3 | op4 |
// out                  |=x=|   |=y=|
// to disk                  |=x=|
// from disk                              |=v=|
// in                                         |==v==|     |==y==|
TEST(SimulatorStepsTest, WhatIsFetchedWhileItWaitsToLeaveKeepsNoRoomAheadOfItsTurn) {
  StepBuilder step;
  const StorageId v = step.persistent(110, "v");
  const StorageId w = step.temporary(30, "w");
  const StorageId x = step.temporary(40, "x");
  const StorageId y = step.temporary(40, "y");
  const StorageId z = step.temporary(60, "z");
  step.op(100, {.creates = {w, x, y}});
  step.op(100, {.creates = {z}, .frees = {w, z}});
  step.op(100, {.reads = {v}});
  step.op(100, {.reads = {y}, .frees = {y}});
  step.op(100, {.frees = {x}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  Plan plan;
  plan.structure = structure_hash(trace);
  plan.places = {{.storage = v}};
  plan.places[0].add(Tier::kDisk);
  plan.actions = {PlanAction::evict(OpIndex{1}, x, Tier::kDisk),
                  PlanAction::evict(OpIndex{1}, y, Tier::kHost), PlanAction::fetch(OpIndex{1}, v),
                  PlanAction::fetch(OpIndex{1}, y), PlanAction::evict(OpIndex{3}, v, Tier::kDisk)};
  const Problem problem{trace, machine, {{Bytes{120}, Bytes{40}, Bytes{1000}}}};
  const auto flaw = validate(plan, trace, problem.budgets);
  EXPECT_FALSE(flaw) << flaw->text;
  const auto outcome = simulate(problem, plan);
  ASSERT_TRUE(std::holds_alternative<SimulationReport>(outcome))
      << std::get<SimulationFailure>(outcome).reason;
  const auto& report = std::get<SimulationReport>(outcome);
  EXPECT_EQ(report.stall_ns[index_of(StallCause::kAllocation)], 120);
  EXPECT_EQ(report.stall_ns[index_of(StallCause::kInput)], 220 + 40);
  EXPECT_EQ(report.step_ns, 880);
}

TEST(SimulatorStepsTest, ATraceWithoutDurationsIsRefused) {
  Trace trace;
  trace.timed = false;
  const Machine machine = plain_machine();
  EXPECT_THROW(Simulator({trace, machine, {}}), UserError);
}

}  // namespace
}  // namespace spillway::planning
