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

DemandProfile demand(std::uint64_t first, std::uint64_t second) {
  DemandProfile profile(2);
  profile.set(0, first);
  profile.set(1, second);
  return profile;
}

TEST_F(RecordPathTest, WhatIsChosenForAGapLeavesBeforeIt) {
  record_.demand = demand(8, 16);
  path_.touch(7, 100, Bytes{8});
  EXPECT_FALSE(path_.leaves()) << "nothing was chosen yet";
  record_.choose_gaps(0, Bytes{8});
  go_round();
  path_.touch(7, 102, Bytes{8});
  EXPECT_TRUE(path_.leaves());
  record_.choose_gaps(1, Bytes{16});
  go_round();
  path_.touch(7, 104, Bytes{8});
  EXPECT_FALSE(path_.leaves());
}

TEST_F(RecordPathTest, WhatCannotLeaveStays) {
  record_.demand = demand(8, 16);
  path_.touch(7, 100);
  record_.choose_gaps(0, Bytes{8});
  go_round();
  path_.touch(7, 102);
  EXPECT_FALSE(path_.leaves());
}

// The first op touches one storage twice, and then another.
TEST_F(RecordPathTest, AGapBehindTwoTouchesOfAnOpIsOne) {
  record_.ops[0].touch_count = 3;
  record_.ops[1].first_touch = 3;
  record_.plan = {{.distance = 2, .next = 0},
                  {.distance = 2, .next = 0},
                  {.distance = 2, .next = 2},
                  {.distance = StepRecord::kNeverDistance, .next = StepRecord::kNoTouch}};
  record_.demand = demand(16, 24);
  path_.enter({&record_, 0});
  for (const std::uint64_t storage : {7U, 7U, 8U}) path_.touch(storage, 100, Bytes{8});
  record_.choose_gaps(0, Bytes{8});
  go_round();
  for (const std::uint64_t storage : {7U, 7U, 8U}) {
    path_.touch(storage, 102, Bytes{8});
    EXPECT_TRUE(path_.leaves()) << storage;
  }
}

TEST_F(RecordPathTest, OffThePathNothingIsKnown) {
  path_.stop();
  EXPECT_EQ(path_.record(), nullptr);
  EXPECT_EQ(path_.op_touches(), 0U);
  EXPECT_EQ(path_.touch(7, 100), kUnknownUse);
}

}  // namespace
}  // namespace spillway::runtime
