// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/analysis/depth_first.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/testing/random_steps.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::planning {
namespace {

using testing::StepBuilder;
using Positions = std::vector<std::uint64_t>;

std::vector<OpIndex> order_of(const Positions& positions) {
  std::vector<OpIndex> order;
  for (const std::uint64_t op : positions) order.push_back(OpIndex{op});
  return order;
}

Positions depth_first(const Trace& trace) {
  Positions positions;
  for (const OpIndex op : depth_first_order(trace)) positions.push_back(to_value(op));
  return positions;
}

Trace depth_first_step(const Trace& trace) {
  Trace made = reordered(trace, depth_first_order(trace));
  EXPECT_EQ(validate(made), std::nullopt);
  return made;
}

std::vector<StorageId> frees_at(const Trace& trace, std::size_t op) {
  const auto row = trace.ops.frees[OpIndex{op}];
  return {row.begin(), row.end()};
}

//   op        0    1    2    3    4    5    6        program: at once, with x of 1
//   a 10      c         r f                          op 0: 11   1: 21   2: 31   3: 31   4: 22
//   b 10           c         r f                     depth-first: 0, 2, 4, then 1, 3, 5, then 6
//   a' 10               c         r f                op 0: 11   2: 21   4: 12
//   b' 10                    c         r f           op 1: 12   3: 22   5: 13   6: 4
//   a" 1                          c         r f
//   b" 1                               c    r f
//   sum 1                                   c
struct TwoBranches {
  StepBuilder step;
  StorageId x = step.persistent(1, "x");

  explicit TwoBranches(bool recomputable = true) {
    std::vector<StorageId> ends;
    std::vector<StorageId> from;
    for (const std::uint64_t bytes : {10U, 10U, 1U}) {
      std::vector<StorageId> made;
      for (std::size_t branch = 0; branch < 2; ++branch) {
        made.push_back(step.temporary(bytes, ""));
        const bool first = from.empty();
        const StorageId read = first ? x : from[branch];
        step.op(100, {.creates = {made.back()},
                      .reads = {read},
                      .frees = first ? std::vector<StorageId>{} : std::vector{read},
                      .recomputable = recomputable});
      }
      from = made;
    }
    const StorageId sum = step.temporary(1, "sum");
    const StorageId left = step.temporary(1, "sum of the step before");
    step.op(100, {.creates = {sum}, .reads = from, .frees = {from[0], from[1], left}});
    step.trace().storages.continues[to_value(sum)] = left;
  }
};

TEST(DepthFirstTest, OneBranchRunsToItsEndBeforeTheOtherBegins) {
  const Trace trace = TwoBranches().step.build();
  EXPECT_EQ(depth_first(trace), (Positions{0, 2, 4, 1, 3, 5, 6}));
  // One more throughout: the sum of the step before, which only the last op frees.
  EXPECT_EQ(peak_bytes(trace), Bytes{31 + 1});
  EXPECT_EQ(peak_bytes(depth_first_step(trace)), Bytes{22 + 1});
}

TEST(DepthFirstTest, WhatOneOpMakesReadyKeepsTheOrderOfTheProgram) {
  StepBuilder step;
  const StorageId x = step.temporary(1, "x");
  step.op(1, {.creates = {x}, .recomputable = true});
  for (int reader = 0; reader < 3; ++reader) {
    step.op(1, {.creates = {step.temporary(1, "")}, .reads = {x}, .recomputable = true});
  }
  EXPECT_EQ(depth_first(step.build()), (Positions{0, 1, 2, 3}));
}

TEST(DepthFirstTest, RandomNumbersAreDrawnInTheOrderOfTheProgram) {
  const Trace trace = TwoBranches(false).step.build();
  EXPECT_EQ(depth_first(trace), (Positions{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(depth_first_step(trace), trace);
}

//   op     0    1    2    3    4
//   x      c         r    w    r         op 3 needs nothing but x, which is there from op 0 on, but
//   y           c    r                   op 2 is to read what was there before
TEST(DepthFirstTest, OpInPlaceStaysBetweenTwoReaders) {
  StepBuilder step;
  const StorageId x = step.temporary(1, "x");
  const StorageId y = step.temporary(1, "y");
  const std::vector<StorageId> made{step.temporary(1, ""), step.temporary(1, "")};
  step.op(1, {.creates = {x}, .recomputable = true});
  step.op(1, {.creates = {y}, .recomputable = true});
  step.op(1, {.creates = {made[0]}, .reads = {x, y}, .recomputable = true});
  step.op(1, {.writes = {x}});
  step.op(1, {.creates = {made[1]}, .reads = {x}, .recomputable = true});
  EXPECT_EQ(depth_first(step.build()), (Positions{0, 1, 2, 3, 4}));
}

//   op     0    1    2    3
//   x      c         w    w         op 3 could follow op 0 at once, but for op 2
//   z      c              r
//   y           c    r
TEST(DepthFirstTest, WritersOfOneStorageKeepTheirOrder) {
  StepBuilder step;
  const StorageId x = step.temporary(1, "x");
  const StorageId y = step.temporary(1, "y");
  const StorageId z = step.temporary(1, "z");
  step.op(1, {.creates = {x, z}, .recomputable = true});
  step.op(1, {.creates = {y}, .recomputable = true});
  step.op(1, {.reads = {y}, .writes = {x}});
  step.op(1, {.reads = {z}, .writes = {x}});
  EXPECT_EQ(depth_first(step.build()), (Positions{0, 1, 2, 3}));
}

//   op          0    1    2    3            program        order   0    3    1    2
//   s           c         r    r f          freed by 3             c    r         r f
//   y                c    r                 not freed                        c    r
//   kept late        c         f            freed by 3                       c f
//   left             f                      before any touch                 f
TEST(DepthFirstTest, StoragesAreFreedByWhoeverTouchesThemLast) {
  StepBuilder step;
  const StorageId s = step.temporary(1, "s");
  const StorageId y = step.temporary(1, "y");
  const StorageId late = step.temporary(1, "kept late");
  const StorageId left = step.temporary(1, "left");
  const StorageId weight = step.persistent(1, "weight");
  step.op(1, {.creates = {s}, .reads = {weight}, .recomputable = true});
  step.op(1, {.creates = {y, late}, .frees = {left}, .recomputable = true});
  step.op(1, {.creates = {step.temporary(1, "")}, .reads = {s, y}, .recomputable = true});
  step.op(
      1,
      {.creates = {step.temporary(1, "")}, .reads = {s}, .frees = {s, late}, .recomputable = true});
  const Trace trace = step.build();
  ASSERT_EQ(depth_first(trace), (Positions{0, 3, 1, 2}));
  const Trace made = depth_first_step(trace);
  EXPECT_EQ(frees_at(made, 0), std::vector<StorageId>{});
  EXPECT_EQ(frees_at(made, 1), std::vector<StorageId>{});
  EXPECT_EQ(frees_at(made, 2), (std::vector{left, late}));
  EXPECT_EQ(frees_at(made, 3), (std::vector{s}));
  EXPECT_EQ(made.storages, trace.storages);
}

TEST(DepthFirstTest, WhatIsKnownOfAnOpGoesWithIt) {
  Trace trace;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::string word = std::to_string(i);
    trace.add(TraceOp{.name = "op" + word,
                      .duration_ns = i,
                      .flop = i,
                      .bytes_touched = Bytes{i},
                      .thread = i,
                      .stream = 2 * i,
                      .arithmetic = i == 0 ? Arithmetic::kFloat32 : Arithmetic::kFloat16,
                      .recomputable = i == 1,
                      .source = "train.py:" + word,
                      .module = "layer" + word,
                      .workspace = Bytes{i},
                      .signature = 100 + i,
                      .alternatives = std::vector<OpAlternative>(i, {7, Bytes{i}})});
  }
  trace.machine = "a machine";
  const Trace made = reordered(trace, order_of({2, 0, 1}));
  ASSERT_EQ(validate(made), std::nullopt);
  EXPECT_EQ(made.ops.thread, (std::vector<std::uint32_t>{0, 1, 2})) << "numbered by appearance";
  EXPECT_EQ(made.ops.stream, (std::vector<std::uint32_t>{0, 1, 2}));
  Trace back = reordered(made, order_of({1, 2, 0}));
  back.ops.stream = trace.ops.stream;
  EXPECT_EQ(back, trace);
  EXPECT_EQ(made.ops.name[0], "op2");
  EXPECT_EQ(made.ops.source[1], "train.py:0");
  EXPECT_EQ(made.ops.alternatives[OpIndex{0}].size(), 2U);
}

TEST(DepthFirstTest, AnOrderThatIsNoneIsRefused) {
  const Trace trace = TwoBranches().step.build();
  EXPECT_THROW(reordered(trace, order_of({0, 1, 2})), InternalError);
  EXPECT_THROW(reordered(trace, order_of({0, 1, 2, 3, 4, 5, 5})), InternalError);
  EXPECT_THROW(reordered(trace, order_of({0, 1, 2, 3, 4, 5, 7})), InternalError);
  EXPECT_EQ(reordered(Trace{}, depth_first_order(Trace{})), Trace{});
}

TEST(DepthFirstTest, AStepOfAMillionOpsTakesSeconds) {
  const Trace trace = testing::layered_step(40'000);
  ASSERT_GE(trace.ops.size(), 900'000U);
  EXPECT_EQ(reordered(trace, depth_first_order(trace)).ops.size(), trace.ops.size());
}

}  // namespace
}  // namespace spillway::planning
