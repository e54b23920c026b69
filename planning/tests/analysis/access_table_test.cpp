// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/analysis/access_table.hpp"

#include <gtest/gtest.h>

#include "analysis/levels.hpp"
#include "draft/draft.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::planning {
namespace {

using testing::StepBuilder;

//   op          0    1    2    3
//   weight 10   r    .    .    w     persistent
//   a 4         c    r    .    f
//   b 7         .    c    r    r f
struct SmallStep {
  StepBuilder step;
  StorageId weight = step.persistent(10, "weight");
  StorageId a = step.temporary(4, "a");
  StorageId b = step.temporary(7, "b");
  Trace trace;

  SmallStep() {
    step.op(100, {.creates = {a}, .reads = {weight}});
    step.op(100, {.creates = {b}, .reads = {a}, .workspace = 3});
    step.op(100, {.reads = {b}});
    step.op(100, {.reads = {b}, .writes = {weight}, .frees = {a, b}});
    trace = step.build();
  }
};

TEST(AccessTableTest, BytesAliveAndNeededAreSummedPerOp) {
  const AccessTable table(SmallStep().trace);
  EXPECT_EQ(table.alive(0), 14U);
  EXPECT_EQ(table.alive(1), 24U);  // and 3 of workspace
  EXPECT_EQ(table.alive(2), 21U);
  EXPECT_EQ(table.alive(3), 21U);
  EXPECT_EQ(table.working_set(0), 14U);
  EXPECT_EQ(table.working_set(1), 14U);
  EXPECT_EQ(table.working_set(2), 7U);
  EXPECT_EQ(table.working_set(3), 17U);
}

TEST(AccessTableTest, FreeingAloneIsNoTouch) {
  const AccessTable table(SmallStep().trace);
  EXPECT_EQ(table.op_of(table.last_touch(1)), 1U);
  EXPECT_EQ(table.freed_by(1), 3U);
  ASSERT_EQ(table.frees(3).size(), 2U);
}

TEST(AccessTableTest, GapOfAParameterWrapsAroundTheEndOfTheStep) {
  const AccessTable table(SmallStep().trace);
  const GapEnd within = end_of_gap(table, table.first_touch(0));
  EXPECT_EQ(table.op_of(within.touch), 3U);
  EXPECT_FALSE(within.wraps);
  const GapEnd around = end_of_gap(table, table.last_touch(0));
  EXPECT_EQ(around.storage, 0U);
  EXPECT_EQ(table.op_of(around.touch), 0U);
  EXPECT_TRUE(around.wraps);
  EXPECT_EQ(end_of_gap(table, table.last_touch(2)).touch, kNoRow);
}

TEST(AccessTableTest, GapGoesOnInTheStorageThatContinuesAnother) {
  StepBuilder step;
  const StorageId before = step.temporary(5, "gradient of the step before");
  const StorageId after = step.temporary(5, "gradient");
  step.op(10, {.reads = {before}, .frees = {before}});
  step.op(10, {.creates = {after}});
  step.trace().storages.continues[to_value(after)] = before;
  const AccessTable table(step.build());
  const GapEnd end = end_of_gap(table, table.last_touch(1));
  EXPECT_EQ(end.storage, 0U);
  EXPECT_TRUE(end.wraps);
  EXPECT_EQ(table.predecessor(0), 1U);
}

TEST(LevelsTest, LevelIsTheLongestPathAndWritesWaitForReads) {
  const Levels levels = levels_of(AccessTable(SmallStep().trace));
  EXPECT_EQ(levels.of, (std::vector<Row>{0, 1, 2, 2}));  // reads do not wait for reads
  StepBuilder step;
  const StorageId x = step.persistent(1, "x");
  const StorageId y = step.temporary(1, "y");
  const StorageId z = step.temporary(1, "z");
  step.op(1, {.creates = {y}, .reads = {x}});
  step.op(1, {.creates = {z}, .reads = {x}});                  // beside the first
  step.op(1, {.reads = {y}, .writes = {x}, .frees = {y, z}});  // after all reads of x
  EXPECT_EQ(levels_of(AccessTable(step.build())).of, (std::vector<Row>{0, 0, 1}));
}

}  // namespace
}  // namespace spillway::planning
