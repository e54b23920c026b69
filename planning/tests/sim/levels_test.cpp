// SPDX-License-Identifier: Apache-2.0
// The bytes on the tiers by a timeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "spillway/planning/sim/simulator.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::planning {
namespace {

using spillway::testing::plain_machine;
using spillway::testing::StepBuilder;

SimulationReport report(StepBuilder& step, std::uint64_t budget, std::vector<PlanAction> actions) {
  const Trace trace = step.build();
  const Machine machine = plain_machine();  // one byte takes one nanosecond
  Plan plan;
  plan.structure = structure_hash(trace);
  plan.actions = std::move(actions);
  const Budgets budgets{{Bytes{budget}, Bytes{1000}, Bytes{0}}};
  const auto result = simulate({trace, machine, budgets}, plan, {.timeline = true});
  return std::get<SimulationReport>(result);
}

//   op          0     1     2     3     4     5      duration 100 each, workspace 5 in op 2
//   a   60      c                       r f          leaves before 1
//   b   30            c     r     r f
//   w   10      r                             r w    persistent
TEST(SimulatorLevelsTest, SayWhatOfTheDeviceIsOfWhichRole) {
  StepBuilder step;
  const StorageId w = step.persistent(10, "w");
  const StorageId a = step.temporary(60, "a");
  const StorageId b = step.temporary(30, "b");
  step.op(100, {.creates = {a}, .reads = {w}});
  step.op(100, {.creates = {b}});
  step.op(100, {.reads = {b}, .workspace = 5});
  step.op(100, {.reads = {b}, .frees = {b}});
  step.op(100, {.reads = {a}, .frees = {a}});
  step.op(100, {.reads = {w}, .writes = {w}});
  step.trace().storages.role[to_value(w)] = StorageRole::kParameter;
  step.trace().storages.role[to_value(a)] = StorageRole::kActivation;
  step.trace().storages.role[to_value(b)] = StorageRole::kGradient;
  const auto result = report(step, 75, {PlanAction::evict(OpIndex{1}, a, Tier::kHost)});
  std::vector<std::vector<std::uint64_t>> seen;
  for (const TimelineLevel& level : result.timeline.levels) {
    const auto of = [&](StorageRole role) { return level.on_device[index_of(role)].count; };
    seen.push_back({static_cast<std::uint64_t>(level.time), of(StorageRole::kParameter),
                    of(StorageRole::kActivation), of(StorageRole::kGradient),
                    of(StorageRole::kWorkspace)});
  }
  // a is on its way out from 100 to 160, when b finds room, and on its way in from 460.
  const std::vector<std::vector<std::uint64_t>> expected{
      {0, 10, 60, 0, 0},   {100, 10, 60, 0, 0}, {160, 10, 0, 30, 0}, {260, 10, 0, 30, 5},
      {360, 10, 0, 30, 0}, {460, 10, 60, 0, 0}, {620, 10, 0, 0, 0},
  };
  EXPECT_EQ(seen, expected);
}

// An op that takes no time and frees what it made: its 90 are the peak all the same.
TEST(SimulatorLevelsTest, HaveThePeakOfAnInstant) {
  StepBuilder step;
  const StorageId a = step.temporary(60, "a");
  const StorageId b = step.temporary(30, "b");
  step.op(0, {.creates = {a}});
  step.op(0, {.creates = {b}, .frees = {a, b}});
  step.op(100, {});
  const auto result = report(step, 100, {});
  ASSERT_EQ(result.peak[0].bytes, Bytes{90});
  std::vector<std::pair<TimeNs, std::uint64_t>> levels;
  for (const TimelineLevel& level : result.timeline.levels) {
    levels.emplace_back(level.time, level.bytes[0].count);
  }
  EXPECT_THAT(levels, ::testing::ElementsAre(::testing::Pair(0, 90), ::testing::Pair(0, 0)));
}

// A storage left over from the step before has the role that it has in this one.
//   op     0     1
//   h 40   f           left over, a gradient
//   g 40         c     goes on as h, unknown
TEST(SimulatorLevelsTest, CountWhatGoesOnAsWhatItIsNow) {
  StepBuilder step;
  const StorageId h = step.temporary(40, "h");
  const StorageId g = step.temporary(40, "g");
  step.op(100, {.frees = {h}});
  step.op(100, {.creates = {g}});
  step.trace().storages.continues[to_value(g)] = h;
  step.trace().storages.role[to_value(h)] = StorageRole::kGradient;
  const auto result = report(step, 100, {});
  ASSERT_FALSE(result.timeline.levels.empty());
  const TimelineLevel& first = result.timeline.levels.front();
  EXPECT_EQ(first.time, 0);
  EXPECT_EQ(first.on_device[index_of(StorageRole::kGradient)], Bytes{40});
  EXPECT_EQ(first.on_device[index_of(StorageRole::kUnknown)], Bytes{0});
}

}  // namespace
}  // namespace spillway::planning
