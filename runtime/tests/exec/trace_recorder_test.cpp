// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/trace_recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace spillway::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr StorageId kWeight{101};
constexpr StorageId kHidden{102};
constexpr StorageId kGradient{103};

class TraceRecorderTest : public ::testing::Test {
 protected:
  void op(const char* name, const std::vector<std::pair<StorageId, bool>>& uses, Bytes grown = {}) {
    recorder_.begin_op(name, 0, now_);
    for (const auto& [id, writes] : uses) recorder_.use(id, {4096}, writes, "fake::maker");
    recorder_.end_op(now_ += 10, grown);
  }
  Trace checked() {
    const std::optional<Trace> trace = recorder_.trace();
    EXPECT_TRUE(trace);
    if (!trace) return {};
    EXPECT_EQ(validate(*trace), std::nullopt);
    return *trace;
  }

  TraceRecorder recorder_;
  TimeNs now_ = 1000;
};

TEST_F(TraceRecorderTest, NothingBeforeAnyOp) {
  EXPECT_FALSE(recorder_.trace());
  recorder_.boundary();
  recorder_.allocated(kHidden, {64});
  recorder_.freed(kHidden);
  recorder_.end_op(5, {});
  EXPECT_FALSE(recorder_.trace());
}

TEST_F(TraceRecorderTest, AnOpKeepsItsSignature) {
  recorder_.begin_op("add", 0xf00d, 1000);
  recorder_.end_op(1500, {});
  op("other", {});
  EXPECT_THAT(checked().ops.signature, ElementsAre(0xf00dU, 0U));
}

TEST_F(TraceRecorderTest, ADeviceSaysLaterHowLongAnOpTook) {
  const auto recorded = [this] {
    recorder_.begin_op("conv", 0, now_);
    return recorder_.end_op(now_ += 10, {});
  };
  const auto forgotten = recorded();
  recorder_.boundary();
  const auto first = recorded();
  const auto second = recorded();
  ASSERT_TRUE(forgotten && first && second);
  recorder_.set_duration(*first, 1'000);
  recorder_.boundary();
  recorder_.set_duration(*second, 2'000);
  recorder_.set_duration(*forgotten, 3'000);
  EXPECT_THAT(checked().ops.duration_ns, ElementsAre(1'000, 2'000));
}

TEST_F(TraceRecorderTest, AViewIsNotWritten) {
  recorder_.begin_op("view", 0, 1000);
  recorder_.use(kWeight, {4096}, false, nullptr);
  recorder_.made(kWeight, {4096}, nullptr, false);
  recorder_.note({.bytes_touched = Bytes{8192}});
  recorder_.end_op(1500, {});
  const Trace trace = checked();
  EXPECT_THAT(trace.ops.reads[OpIndex{0}], ElementsAre(StorageId{0}));
  EXPECT_THAT(trace.ops.views[OpIndex{0}], ElementsAre(StorageId{0}));
  EXPECT_THAT(trace.ops.writes[OpIndex{0}], ElementsAre());
  EXPECT_EQ(trace.ops.bytes_touched[0], Bytes{0});
}

TEST_F(TraceRecorderTest, WhatIsWrittenInPlaceAndHandedOutIsNoView) {
  recorder_.begin_op("add_", 0, 1000);
  recorder_.use(kWeight, {4096}, true, nullptr);
  recorder_.made(kWeight, {4096}, nullptr, false);
  recorder_.end_op(1500, {});
  const Trace trace = checked();
  EXPECT_THAT(trace.ops.writes[OpIndex{0}], ElementsAre(StorageId{0}));
  EXPECT_THAT(trace.ops.views[OpIndex{0}], ElementsAre());
}

// As where it turns a number into a tensor: running an op again does not fill that.
TEST_F(TraceRecorderTest, WhatTheProgramMakesCountsAsCreatedByTheNextOp) {
  recorder_.begin_op("conv", 0, 1000);
  recorder_.use(kWeight, {4096}, false, nullptr);
  recorder_.allocated(kHidden, {8192});
  recorder_.made(kHidden, {8192}, nullptr, false);
  recorder_.note({.pure = true});
  recorder_.end_op(1500, Bytes{8192});
  constexpr StorageId kNumber{77};
  recorder_.allocated(kNumber, {8});
  recorder_.begin_op("mul", 0, 2000);
  recorder_.use(kHidden, {8192}, false, nullptr);
  recorder_.use(kNumber, {8}, false, nullptr);
  recorder_.allocated(kGradient, {8192});
  recorder_.made(kGradient, {8192}, nullptr, false);
  recorder_.note({.pure = true});
  recorder_.end_op(2500, Bytes{8192 + 100});
  const Trace trace = checked();
  EXPECT_EQ(trace.ops.creates[OpIndex{0}].size(), 1U);
  EXPECT_EQ(trace.ops.recomputable[0], 1);
  EXPECT_EQ(trace.ops.creates[OpIndex{1}].size(), 2U);
  EXPECT_EQ(trace.ops.recomputable[1], 0);
  EXPECT_EQ(trace.ops.workspace[1], Bytes{100});
}

// The result is made from a view of the argument, in an op within the op.
TEST_F(TraceRecorderTest, ViewsMadeWithinAnOpAreItsOwnAffair) {
  recorder_.begin_op("pow", 0, 1000);
  recorder_.use(kWeight, {4096}, false, nullptr);
  recorder_.made(kWeight, {4096}, nullptr, true);
  recorder_.allocated(kHidden, {8192});
  recorder_.use(kHidden, {8192}, false, nullptr);
  recorder_.made(kHidden, {8192}, nullptr, true);
  recorder_.made(kHidden, {8192}, nullptr, false);
  recorder_.note({.pure = true});
  recorder_.end_op(1500, Bytes{8192});
  const Trace trace = checked();
  EXPECT_THAT(trace.ops.writes[OpIndex{0}], ElementsAre(StorageId{1}));
  EXPECT_THAT(trace.ops.views[OpIndex{0}], ElementsAre());
  EXPECT_EQ(trace.ops.recomputable[0], 1);
}

TEST_F(TraceRecorderTest, OpsSayWhatTheyReadWriteCreateAndFree) {
  recorder_.begin_op("matmul", 0, 1000);
  recorder_.use(kWeight, {4096}, false, "fake::init");
  recorder_.allocated(kHidden, {8192});
  recorder_.made(kHidden, {8192}, nullptr, false);
  recorder_.end_op(1500, Bytes{10'000});
  op("relu", {{kHidden, false}});
  recorder_.freed(kHidden);
  const Trace trace = checked();
  ASSERT_EQ(trace.ops.size(), 2U);
  EXPECT_EQ(trace.ops.name[0], "matmul");
  EXPECT_EQ(trace.ops.duration_ns[0], 500);
  EXPECT_THAT(trace.ops.reads[OpIndex{0}], ElementsAre(StorageId{0}));
  EXPECT_THAT(trace.ops.creates[OpIndex{0}], ElementsAre(StorageId{1}));
  EXPECT_THAT(trace.ops.writes[OpIndex{0}], ElementsAre(StorageId{1}));
  EXPECT_THAT(trace.ops.frees[OpIndex{1}], ElementsAre(StorageId{1}));
  EXPECT_EQ(trace.ops.workspace[0], Bytes{10'000 - 8192}) << "scratch is what it did not create";
  EXPECT_EQ(trace.storages.bytes[1], Bytes{8192});
  EXPECT_EQ(trace.storages.role[1], StorageRole::kActivation);
  EXPECT_EQ(trace.storages.persistent[0], 1U);
  EXPECT_EQ(trace.storages.name[0], "fake::init");
}

TEST_F(TraceRecorderTest, AStorageIsOnceInARow) {
  op("add", {{kWeight, false}, {kWeight, false}, {kWeight, true}, {kWeight, true}});
  const Trace trace = checked();
  EXPECT_THAT(trace.ops.reads[OpIndex{0}], ElementsAre(StorageId{0}));
  EXPECT_THAT(trace.ops.writes[OpIndex{0}], ElementsAre(StorageId{0}));
}

TEST_F(TraceRecorderTest, TheLastCompleteStepIsReturned) {
  op("first", {{kWeight, false}});
  EXPECT_EQ(checked().ops.name[0], "first") << "what there is of the first";
  recorder_.boundary();
  op("second", {{kWeight, false}});
  EXPECT_EQ(checked().ops.name[0], "first");
  recorder_.boundary();
  op("third", {{kWeight, false}});
  EXPECT_EQ(checked().ops.name[0], "second");
  recorder_.boundary();
  recorder_.boundary();
  EXPECT_EQ(checked().ops.name[0], "third") << "a step without ops is none";
}

TEST_F(TraceRecorderTest, AnOpOpenOverABoundaryBelongsToNoStep) {
  op("first", {{kWeight, false}});
  recorder_.begin_op("over", 0, 5000);
  recorder_.boundary();
  recorder_.use(kGradient, {64}, true, nullptr);
  recorder_.end_op(9000, Bytes{77});
  op("second", {{kWeight, true}});
  recorder_.boundary();
  const Trace trace = checked();
  ASSERT_EQ(trace.ops.size(), 1U);
  EXPECT_EQ(trace.ops.name[0], "second");
  EXPECT_EQ(trace.storages.size(), 1U);
}

TEST_F(TraceRecorderTest, WhatOutlivesAStepIsOldInTheNext) {
  recorder_.begin_op("backward", 0, 0);
  recorder_.allocated(kGradient, {4096});
  recorder_.made(kGradient, {4096}, nullptr, false);
  recorder_.end_op(1, {});
  recorder_.boundary();
  op("zero", {{kGradient, true}});
  recorder_.freed(kGradient);
  Trace trace = checked();
  EXPECT_THAT(trace.ops.creates[OpIndex{0}], ElementsAre(StorageId{0}));
  EXPECT_THAT(trace.ops.frees[OpIndex{0}], IsEmpty());
  recorder_.boundary();
  trace = checked();
  EXPECT_THAT(trace.ops.creates[OpIndex{0}], IsEmpty());
  EXPECT_THAT(trace.ops.frees[OpIndex{0}], ElementsAre(StorageId{0}));
  EXPECT_EQ(trace.storages.persistent[0], 0U);
}

TEST_F(TraceRecorderTest, WhatIsWrittenInPlaceIsReadUnlessItIsOverwritten) {
  op("add_", {{kWeight, true}});
  recorder_.begin_op("copy_", 0, 0);
  recorder_.use(kWeight, {4096}, true, nullptr);
  recorder_.use(kGradient, {4096}, false, nullptr);
  const std::array overwritten{kWeight};
  recorder_.note({.overwritten = overwritten});
  recorder_.end_op(1, {});
  const Trace trace = checked();
  EXPECT_THAT(trace.ops.reads[OpIndex{0}], ElementsAre(StorageId{0}));
  EXPECT_THAT(trace.ops.writes[OpIndex{0}], ElementsAre(StorageId{0}));
  EXPECT_THAT(trace.ops.reads[OpIndex{1}], ElementsAre(StorageId{1}));
  EXPECT_THAT(trace.ops.writes[OpIndex{1}], ElementsAre(StorageId{0}));
}

// A pure op can be run again if all that it writes is its own.
TEST_F(TraceRecorderTest, NotesSayWhatAnOpCostsAndWhetherItCanBeRunAgain) {
  recorder_.begin_op("mm", 0, 0);
  recorder_.use(kWeight, {4096}, false, nullptr);
  recorder_.allocated(kHidden, {8192});
  recorder_.made(kHidden, {8192}, nullptr, false);
  recorder_.note({.flop = 1000,
                  .bytes_touched = Bytes{12'288},
                  .arithmetic = Arithmetic::kFloat32,
                  .pure = true,
                  .module = "layer1",
                  .source = "train.py:12"});
  recorder_.end_op(1, {});
  recorder_.begin_op("add_", 0, 1);
  recorder_.use(kHidden, {8192}, true, nullptr);
  recorder_.note({.pure = true});
  recorder_.end_op(2, {});
  const Trace trace = checked();
  EXPECT_EQ(trace.ops.flop[0], 1000U);
  EXPECT_EQ(trace.ops.bytes_touched[0], Bytes{12'288});
  EXPECT_EQ(trace.ops.arithmetic[0], Arithmetic::kFloat32);
  EXPECT_EQ(trace.ops.module[0], "layer1");
  EXPECT_EQ(trace.ops.source[0], "train.py:12");
  EXPECT_EQ(trace.ops.recomputable[0], 1U);
  EXPECT_EQ(trace.ops.recomputable[1], 0U) << "it writes what another made";
}

TEST_F(TraceRecorderTest, ADescriptionHoldsWhileTheStorageLives) {
  op("first", {{kWeight, false}, {kGradient, false}});
  recorder_.describe(kWeight, StorageRole::kParameter, "layer1.weight");
  recorder_.boundary();
  recorder_.freed(kGradient);
  op("second", {{kWeight, false}, {kGradient, false}});
  recorder_.describe(kGradient, StorageRole::kGradient, "layer1.weight.grad");
  recorder_.boundary();
  const Trace trace = checked();
  EXPECT_EQ(trace.storages.role[0], StorageRole::kParameter);
  EXPECT_EQ(trace.storages.name[0], "layer1.weight");
  EXPECT_EQ(trace.storages.role[1], StorageRole::kGradient);
}

TEST_F(TraceRecorderTest, WhatDiesIsContinuedByWhatAnEqualOpMakes) {
  for (std::uint64_t step = 0; step < 3; ++step) {
    const StorageId former{1000 + step};
    const StorageId next{1001 + step};
    recorder_.boundary();
    op("zero_grad", {{kWeight, false}});
    if (step > 0) {
      recorder_.begin_op("use", 0, now_);
      recorder_.use(former, {4096}, false, nullptr);
      recorder_.end_op(now_ += 10, {});
      recorder_.freed(former);
    } else {
      op("use", {{kWeight, false}});
    }
    recorder_.begin_op("backward", 0, now_);
    recorder_.allocated(next, {4096});
    recorder_.made(next, {4096}, nullptr, false);
    recorder_.end_op(now_ += 10, {});
  }
  recorder_.boundary();
  const Trace trace = checked();
  ASSERT_EQ(trace.storages.size(), 3U);
  EXPECT_EQ(trace.storages.continues[2], StorageId{1});
}

TEST_F(TraceRecorderTest, ScratchThatNoOpUsesIsLeftOut) {
  recorder_.begin_op("conv", 0, 0);
  recorder_.allocated(kHidden, {1'000'000});
  recorder_.freed(kHidden);
  recorder_.end_op(1, Bytes{1'000'000});
  const Trace trace = checked();
  EXPECT_EQ(trace.storages.size(), 0U);
  EXPECT_EQ(trace.ops.workspace[0], Bytes{1'000'000});
}

TEST_F(TraceRecorderTest, AFreeSeenLateNeverComesBeforeTheLastUse) {
  recorder_.begin_op("make", 0, 0);
  recorder_.allocated(kHidden, {64});
  recorder_.end_op(1, {});
  op("use", {{kHidden, false}});
  op("other", {{kWeight, false}});
  recorder_.freed(kHidden);
  const Trace trace = checked();
  EXPECT_THAT(trace.ops.frees[OpIndex{2}], ElementsAre(StorageId{0}));
}

TEST_F(TraceRecorderTest, ThreadsHaveTheirOwnOpenOps) {
  recorder_.begin_op("outer", 0, 0);
  std::thread([&] { op("inner", {{kHidden, false}}); }).join();
  recorder_.use(kWeight, {64}, false, nullptr);
  recorder_.end_op(9, {});
  const Trace trace = checked();
  ASSERT_EQ(trace.ops.size(), 2U);
  EXPECT_EQ(trace.ops.name[0], "outer");
  EXPECT_NE(trace.ops.thread[0], trace.ops.thread[1]);
  EXPECT_EQ(trace.ops.reads[OpIndex{0}].size(), 1U);
  EXPECT_EQ(trace.ops.reads[OpIndex{1}].size(), 1U);
}

TEST_F(TraceRecorderTest, ManyThreadsYieldAValidTrace) {
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back([this, number] {
      std::mt19937_64 random(number);
      std::vector<StorageId> mine;
      for (std::uint64_t i = 0; i < 500; ++i) {
        const StorageId id{1'000 * (number + 1) + i};
        recorder_.begin_op("op", 0, static_cast<TimeNs>(i));
        recorder_.allocated(id, {64});
        recorder_.use(id, {64}, true, "fake::maker");
        mine.push_back(id);
        recorder_.use(mine[random() % mine.size()], {64}, false, nullptr);
        recorder_.end_op(static_cast<TimeNs>(i + 1), Bytes{64});
        if (mine.size() > 5) {
          recorder_.freed(mine.front());
          mine.erase(mine.begin());
        }
        if (number == 0 && i % 100 == 99) recorder_.boundary();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  checked();
}

}  // namespace
}  // namespace spillway::runtime
