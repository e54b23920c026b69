// SPDX-License-Identifier: Apache-2.0
// The small parts that a pass is made of, each against a naive counterpart or sums done by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "pass/arrival_queue.hpp"
#include "pass/link_clock.hpp"
#include "pass/range_max.hpp"
#include "pass/sweep.hpp"
#include "pass/tier_level.hpp"
#include "search/small_storages.hpp"
#include "spillway/planning/cost/step_model.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::planning {
namespace {

TEST(RangeMaxTest, AgreesWithARowOfNumbers) {
  std::mt19937 random(7);
  std::vector<std::int64_t> row(37);
  for (auto& value : row) value = static_cast<std::int64_t>(random() % 100);
  RangeMax tree(row);
  for (int turn = 0; turn < 500; ++turn) {
    const std::size_t first = random() % row.size();
    const std::size_t last = first + 1 + random() % (row.size() - first);
    const auto amount = static_cast<std::int64_t>(random() % 21) - 10;
    tree.add(first, last, amount);
    for (std::size_t i = first; i < last; ++i) row[i] += amount;
    const std::size_t low = random() % row.size();
    const std::size_t high = low + 1 + random() % (row.size() - low);
    EXPECT_EQ(tree.max(low, high), *std::max_element(row.begin() + static_cast<long>(low),
                                                     row.begin() + static_cast<long>(high)));
    EXPECT_EQ(tree.max(), *std::max_element(row.begin(), row.end()));
  }
}

TEST(TierLevelTest, ACopyIsMadeNoEarlierThanThereIsRoomUntilItIsDecidedOn) {
  std::mt19937 random(11);
  constexpr Row kOps = 40;
  constexpr std::uint64_t kBudget = 100;
  std::vector<std::uint64_t> row(kOps + 1);  // before each op, and at the end
  pass::TierLevel level(kBudget, 1000, kOps);
  std::vector<std::uint64_t> there;
  int early = 0;
  int put_off = 0;
  for (Row op = 0; op < kOps; ++op) {
    const std::uint64_t bytes = 1 + random() % 60;
    ASSERT_EQ(level.has_room(bytes, op), row[op] + bytes <= kBudget);
    if (level.has_room(bytes, op)) {
      const auto from = static_cast<Row>(random() % (op + 1));
      Row naive = op;
      while (naive > from && row[naive - 1] + bytes <= kBudget) --naive;
      const Row at = level.earliest(bytes, from, op);
      ASSERT_EQ(at, naive);
      (at < op ? early : put_off) += at > from || at < op ? 1 : 0;
      level.add(bytes, at);
      for (Row later = at; later <= kOps; ++later) row[later] += bytes;
      there.push_back(bytes);
    }
    if (!there.empty() && random() % 2 == 0) {
      level.remove(there.back(), op);
      for (Row later = op + 1; later <= kOps; ++later) row[later] -= there.back();
      there.pop_back();
    }
  }
  EXPECT_GT(early, 0);
  EXPECT_GT(put_off, 0);
}

TEST(TierLevelTest, WhereEverythingAliveFindsRoomNothingIsPutOff) {
  pass::TierLevel level(100, 100, 10);
  level.add(100, 0);
  level.remove(100, 4);
  EXPECT_TRUE(level.has_room(100, 5));
  EXPECT_EQ(level.earliest(100, 2, 5), 2U);
}

//     busy        [0,10)      [20,30)
//     a copy of 15 that is ready at 5:  [10,20) and [30,35)
TEST(LinkClockTest, CopiesFillIdleStretchesFromWhenTheyAreReady) {
  LinkClock link;
  link.take(0, 10);
  link.take(20, 10);
  EXPECT_EQ(link.look(5, 15).begin, 10);
  EXPECT_EQ(link.look(5, 15).end, 35);
  const LinkClock::Slot taken = link.take(5, 15);
  EXPECT_EQ(taken.begin, 10);
  EXPECT_EQ(taken.end, 35);
  EXPECT_EQ(link.look(0, 1).begin, 35);
  EXPECT_EQ(link.look(50, 1).begin, 50);
}

TEST(LinkClockTest, LookingTellsWhereTakingTakes) {
  std::mt19937 random(3);
  LinkClock link;
  for (int turn = 0; turn < 200; ++turn) {
    const auto ready = static_cast<double>(random() % 500);
    const auto duration = static_cast<double>(1 + random() % 20);
    const LinkClock::Slot seen = link.look(ready, duration);
    const LinkClock::Slot taken = link.take(ready, duration);
    EXPECT_EQ(seen.begin, taken.begin);
    EXPECT_GE(taken.end, ready + duration);
    EXPECT_LE(seen.end, taken.end);
  }
}

//     deadlines  0 10 20 30 40; copies of 4 at 2 and of 8 at 3:
//     the second must begin at 30 - 8 - 4 = 18 less nothing, the first at 20 - 4 = 16
TEST(ArrivalQueueTest, FirstCopyBeginsSoThatAllAreInTime) {
  ArrivalQueue queue({0, 10, 20, 30, 40});
  EXPECT_EQ(queue.latest_start(), kNever);
  queue.add(2, 4);
  EXPECT_EQ(queue.latest_start(), 16);
  queue.add(3, 8);
  EXPECT_EQ(queue.latest_start(), 16);
  queue.add(3, 10);  // 30 - 22
  EXPECT_EQ(queue.latest_start(), 8);
  queue.remove(3, 8);
  queue.remove(3, 10);
  queue.remove(2, 4);
  EXPECT_EQ(queue.latest_start(), kNever);
}

TEST(ArrivalQueueTest, SlackIsWhatAddingTheCopyWouldLeave) {
  std::mt19937 random(11);
  std::vector<double> deadlines(29);
  for (std::size_t i = 0; i < deadlines.size(); ++i) deadlines[i] = static_cast<double>(10 * i);
  ArrivalQueue queue(deadlines);
  for (int turn = 0; turn < 100; ++turn) {
    const auto position = static_cast<Row>(random() % 29);
    const auto duration = static_cast<double>(1 + random() % 9);
    const double slack = queue.slack_with(position, duration, 5);
    queue.add(position, duration);
    // Copies before the new one are not made earlier by it, and do not count.
    EXPECT_GE(slack, queue.latest_start() - 5);
    if (turn % 3 == 0) queue.remove(position, duration);
  }
}

//   op                0        1..4            5
//   big, 1000 bytes   c        r               r f
//   v0..v3, 10 bytes           one read by each
//   w, 300 bytes                               r
//   workspace         100
// Beside op 0 are 40 + 300 other bytes, beside op i 30 + 300, beside op 5 only 40.
TEST(SmallStoragesTest, AsManyOfTheSmallestAsHaveRoomBesideEveryOp) {
  testing::StepBuilder step;
  const StorageId big = step.temporary(1000, "big");
  std::vector<StorageId> vectors(4);
  for (StorageId& vector : vectors) vector = step.persistent(10, "v");
  const StorageId w = step.persistent(300, "w");
  step.op(10, {.creates = {big}, .workspace = 100});
  for (const StorageId v : vectors) step.op(10, {.reads = {big, v}});
  step.op(10, {.reads = {big, w}, .frees = {big}});
  const Trace trace = step.build();
  const Machine machine = testing::plain_machine();
  const auto of = [&](std::uint64_t device, double share) {
    Problem problem{trace, machine, {}};
    problem.budgets[Tier::kDevice] = Bytes{device};
    return pass::size_that_may_stay(StepModel(problem), share);
  };
  EXPECT_EQ(of(1339, 1), 0U) << "39 beside op 5";
  EXPECT_EQ(of(1340, 1), 10U);
  EXPECT_EQ(of(1379, 0.5), 0U);
  EXPECT_EQ(of(1380, 0.5), 10U);
  EXPECT_EQ(of(1340, 0), 0U);
  EXPECT_EQ(of(1439, 1), 10U) << "beside op 0";
  EXPECT_EQ(of(1440, 1), 1000U) << "all of them";
}

// A layer has vectors and a matrix. Kept up to their size the vectors stay, and matrices and
// outputs make all the room.
TEST(SmallStoragesTest, WhatIsKeptByItsSizeHasNoGapAway) {
  constexpr int kLayers = 30;
  testing::StepBuilder step;
  std::vector<StorageId> vectors, weights, outputs;
  for (int i = 0; i < kLayers; ++i) {
    for (int k = 0; k < 4; ++k) vectors.push_back(step.persistent(10, "v"));
    weights.push_back(step.persistent(400, "w"));
    outputs.push_back(step.temporary(1000, "a"));
  }
  const auto vector = [&](std::size_t layer, std::size_t k) { return vectors[4 * layer + k]; };
  for (std::size_t i = 0; i < kLayers; ++i) {
    testing::StepBuilder::Op op{.creates = {outputs[i]}, .reads = {weights[i]}};
    for (std::size_t k = 0; k < 2; ++k) op.reads.push_back(vector(i, k));
    if (i > 0) op.reads.push_back(outputs[i - 1]);
    step.op(500, op);
  }
  for (std::size_t i = kLayers; i-- > 0;) {
    testing::StepBuilder::Op op{.reads = {outputs[i], weights[i]}, .frees = {outputs[i]}};
    for (std::size_t k = 2; k < 4; ++k) op.reads.push_back(vector(i, k));
    op.writes = {weights[i]};
    step.op(500, op);
  }
  const Trace trace = step.build();
  const Machine machine = testing::plain_machine();
  Problem problem{trace, machine, {}};
  problem.budgets[Tier::kDevice] = Bytes{2420 + 10 * 4 * kLayers};
  problem.budgets[Tier::kHost] = Bytes{1'000'000};
  const StepModel model(problem);
  SweepSettings settings;
  settings.stay_up_to = pass::size_that_may_stay(model, 1);
  EXPECT_EQ(settings.stay_up_to, 10U);
  const SweepResult result = sweep(model, settings);
  ASSERT_TRUE(result.feasible);
  int away = 0;
  for (Row row = 0; row < model.table.touches(); ++row) {
    if (result.draft.gap[row].remedy == Remedy::kKeep) continue;
    ++away;
    EXPECT_GT(model.table.bytes(model.table.touch(row).storage), 10U);
  }
  EXPECT_GT(away, kLayers);
}

}  // namespace
}  // namespace spillway::planning
