// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "spillway/runtime/exec/step_counter.hpp"

namespace spillway::runtime {
namespace {

constexpr bool kOptimizer = true;
constexpr bool kRepeated = true;

/// The next op, with which a step may end. Whether one did.
bool run_op(StepCounter& counter, bool optimizer_step, bool repeated, TimeNs now = 1,
            Bytes moved = {}) {
  counter.begin_op();
  const bool ends = counter.ends_step(optimizer_step, repeated);
  if (ends) counter.count_step(now, moved);
  return ends;
}

TEST(StepCounterTest, RepetitionsAreStepsOfAProgramWithoutOptimizers) {
  StepCounter counter;
  EXPECT_FALSE(run_op(counter, !kOptimizer, !kRepeated));
  EXPECT_TRUE(run_op(counter, !kOptimizer, kRepeated));
  EXPECT_EQ(counter.steps(), 1U);
  EXPECT_FALSE(counter.marked());
}

// What repeated before the first of them was the making of the model.
TEST(StepCounterTest, OptimizersStepsAreTheOnlyOnesOnceThereIsOne) {
  StepCounter counter;
  run_op(counter, !kOptimizer, kRepeated);
  run_op(counter, !kOptimizer, kRepeated);
  EXPECT_TRUE(run_op(counter, kOptimizer, !kRepeated));
  EXPECT_EQ(counter.steps(), 1U);
  EXPECT_FALSE(run_op(counter, !kOptimizer, kRepeated));
  EXPECT_EQ(counter.steps(), 1U);
}

TEST(StepCounterTest, AStepIsForgivenUntilItEnds) {
  StepCounter counter;
  run_op(counter, kOptimizer, !kRepeated);
  EXPECT_FALSE(counter.forgiven());
  counter.forgive_this_step();
  EXPECT_TRUE(counter.forgiven());
  run_op(counter, kOptimizer, !kRepeated);
  EXPECT_FALSE(counter.forgiven());
}

// The count begins anew with the first optimizer's step, so a step of the old one means nothing.
TEST(StepCounterTest, NothingIsForgivenByAStepOfTheOldCount) {
  StepCounter counter;
  for (int i = 0; i < 3; ++i) run_op(counter, !kOptimizer, kRepeated);
  counter.forgive_this_step();
  run_op(counter, kOptimizer, !kRepeated);
  EXPECT_FALSE(counter.forgiven());
}

TEST(StepCounterTest, AStepTookWhatPassedAndMovedSinceTheOneBefore) {
  StepCounter counter;
  run_op(counter, kOptimizer, !kRepeated, 1'000, Bytes{10});
  EXPECT_EQ(counter.last_step_ns(), 0) << "when it began is not known";
  for (int i = 0; i < 5; ++i) run_op(counter, !kOptimizer, !kRepeated);
  run_op(counter, kOptimizer, !kRepeated, 1'700, Bytes{25});
  EXPECT_EQ(counter.last_step_ns(), 700);
  EXPECT_EQ(counter.last_step_moved(), Bytes{15});
  EXPECT_EQ(counter.progress().length(), 6U);
  counter.count_unwatched_step(1'900);
  EXPECT_EQ(counter.last_step_ns(), 200);
  EXPECT_EQ(counter.last_step_moved(), Bytes{0});
  EXPECT_EQ(counter.steps(), 3U);
}

TEST(StepCounterTest, TheNextStepsPeakBeginsWithWhatIsLive) {
  StepCounter counter;
  counter.allocated(Bytes{70});
  counter.allocated(Bytes{40});
  run_op(counter, kOptimizer, !kRepeated);
  EXPECT_EQ(counter.last_step_peak(), Bytes{70});
  counter.allocated(Bytes{30});
  run_op(counter, kOptimizer, !kRepeated);
  EXPECT_EQ(counter.last_step_peak(), Bytes{40});
}

}  // namespace
}  // namespace spillway::runtime
