// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/record_path.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace spillway::runtime {
namespace {

constexpr std::uint64_t kForEver = UINT64_MAX;

// A loop of two ops: the first touches what it touches again in the next pass, the second what
// nothing touches again.
StepRecord loop_of_two() {
  StepRecord record;
  record.loop = true;
  record.ops = {{.signature = 11, .first_touch = 0, .touch_count = 1},
                {.signature = 22, .first_touch = 1, .touch_count = 1}};
  record.plan = {{.distance = 2, .next = 0},
                 {.distance = StepRecord::kNeverDistance, .next = StepRecord::kNoTouch}};
  return record;
}

class RecordPathTest : public ::testing::Test {
 protected:
  RecordPathTest() {
    path_.enter({&record_, 0});
    path_.believe(kNeverUsed, kForEver);
  }
  void go_round() {
    EXPECT_FALSE(path_.next());
    EXPECT_EQ(path_.begin_op(), 22U);
    EXPECT_TRUE(path_.next()) << "the record has two ops";
    path_.restart();
    EXPECT_EQ(path_.begin_op(), 11U);
  }

  StepRecord record_ = loop_of_two();
  RecordPath path_;
};

TEST_F(RecordPathTest, TouchesAreAnsweredInTheOrderOfThePlan) {
  EXPECT_EQ(path_.touch(7, 100), 102U);
  EXPECT_EQ(path_.touch(8, 100), kUnknownUse) << "the op has one touch in the record";
  EXPECT_FALSE(path_.next());
  EXPECT_EQ(path_.begin_op(), 22U);
  EXPECT_EQ(path_.touch(8, 101), kNeverUsed);
}

TEST_F(RecordPathTest, NothingIsToldBeyondWhatIsBelieved) {
  path_.believe(kUnknownUse, 102);
  EXPECT_EQ(path_.touch(7, 100), kUnknownUse) << "its next use is the horizon";
  ASSERT_FALSE(path_.next());
  path_.begin_op();
  EXPECT_EQ(path_.touch(8, 101), kUnknownUse);
}

TEST_F(RecordPathTest, APromiseToAnotherStorageIsCounted) {
  path_.touch(7, 100);
  go_round();
  path_.touch(7, 102);
  EXPECT_FALSE(path_.end_pass());
  go_round();
  path_.touch(9, 104);
  EXPECT_EQ(path_.mismatches(), 1U);
  EXPECT_TRUE(path_.end_pass());
  EXPECT_FALSE(path_.end_pass()) << "that pass is over";
}

TEST_F(RecordPathTest, PromisesOfAnEarlierStayOrPlanDoNotCount) {
  path_.touch(7, 100);
  path_.enter({&record_, 0});
  path_.touch(9, 200);
  go_round();
  path_.void_promises();
  path_.touch(5, 202);
  EXPECT_EQ(path_.mismatches(), 0U);
}

TEST_F(RecordPathTest, OffThePathNothingIsKnown) {
  path_.stop();
  EXPECT_EQ(path_.record(), nullptr);
  EXPECT_EQ(path_.op_touches(), 0U);
  EXPECT_EQ(path_.touch(7, 100), kUnknownUse);
}

}  // namespace
}  // namespace spillway::runtime
