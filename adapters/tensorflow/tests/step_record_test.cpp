// SPDX-License-Identifier: Apache-2.0
#include "step_record.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "finished_step.hpp"
#include "spillway/base/name_hash.hpp"

namespace spillway::tf {
namespace {

constexpr Bytes kTensor = kMiB;

// Memory without bytes: addresses, and how much is allocated.
class StepRecordTest : public ::testing::Test {
 protected:
  const std::byte* allocate(Bytes bytes = kTensor) {
    live_ += bytes;
    const std::byte* const pointer = addresses_.data() + next_++;
    sizes_.resize(next_, Bytes{});
    sizes_.back() = bytes;
    record_.allocated(pointer, bytes, live_);
    return pointer;
  }
  void free(const std::byte* pointer) {
    live_ -= size_of(pointer);
    record_.freed(pointer);
  }
  Bytes size_of(const std::byte* pointer) const {
    return sizes_[static_cast<std::size_t>(pointer - addresses_.data())];
  }
  SeenMemory seen(const std::byte* pointer) const { return {pointer, size_of(pointer)}; }

  bool begin(std::int64_t step, std::string_view node, std::string_view type = "Relu") {
    return record_.begin_op({.step = step, .node = node, .type = type, .pure = true}, now_ += 10);
  }
  void end(const std::vector<SeenMemory>& outputs = {}) { record_.end_op(outputs, now_ += 10); }

  // A tensor is made, used with workspace, and freed.
  void run_step(std::int64_t step, Bytes workspace) {
    ASSERT_TRUE(begin(step, "layer/make"));
    const std::byte* const tensor = allocate();
    end({seen(tensor)});
    ASSERT_TRUE(begin(step, "layer/use"));
    record_.reads(seen(tensor));
    free(allocate(workspace));
    end();
    free(tensor);
  }

  std::vector<std::byte> addresses_ = std::vector<std::byte>(kTensor.count);
  std::vector<Bytes> sizes_;
  std::size_t next_ = 0;
  Bytes live_{};
  TimeNs now_ = 0;
  StepRecord record_{[this](const std::byte* pointer) {
    return pointer >= addresses_.data() && pointer < addresses_.data() + addresses_.size();
  }};
};

TEST_F(StepRecordTest, OpsOfOtherRunsLeaveNoRow) {
  EXPECT_FALSE(begin(1, "layer/make")) << "nothing is watched yet";
  record_.watch(std::vector<std::string>{"layer/make", "layer/use"});
  EXPECT_FALSE(begin(2, "other"));
  run_step(3, kMiB);
  EXPECT_FALSE(begin(4, "other"));
  const auto trace = record_.take();
  ASSERT_TRUE(trace);
  EXPECT_EQ(validate(*trace), std::nullopt);
  ASSERT_EQ(trace->ops.size(), 2U);
  EXPECT_EQ(trace->ops.source[0], "layer/make");
  EXPECT_EQ(trace->ops.module[1], "layer");
  EXPECT_EQ(trace->ops.signature[1], hash_of_name("layer/use")) << "the same in every run";
  EXPECT_EQ(trace->ops.name[1], "Relu");
  EXPECT_EQ(trace->ops.duration_ns[0], 10);
  EXPECT_EQ(trace->ops.frees[OpIndex{1}].size(), 1U);
  EXPECT_EQ(record_.take(), trace) << "it is kept";
}

TEST_F(StepRecordTest, MemoryThatNoOpShowsIsWorkspaceSoThatThePeakIsTheRuns) {
  record_.watch(std::vector<std::string>{"layer/make", "layer/use"});
  const std::byte* const hidden = allocate(kMiB * 5);
  run_step(1, kMiB * 3);
  free(hidden);
  const auto trace = record_.take();
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->ops.workspace[0], kMiB * 5);
  EXPECT_EQ(trace->ops.workspace[1], kMiB * 8);
  EXPECT_EQ(peak_bytes(*trace), kMiB * 9);
}

TEST_F(StepRecordTest, AnOutputInTheMemoryOfAnInputIsTheSameStorage) {
  record_.watch(std::vector<std::string>{"make", "change"});
  ASSERT_TRUE(begin(1, "make"));
  const std::byte* const tensor = allocate();
  end({seen(tensor)});
  ASSERT_TRUE(begin(1, "change"));
  record_.writes(seen(tensor));
  end({seen(tensor)});
  const auto trace = record_.take();
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->storages.size(), 1U);
  EXPECT_EQ(trace->ops.writes[OpIndex{1}].size(), 1U);
  EXPECT_EQ(trace->ops.recomputable[1], 0) << "it destroys what it reads";
}

// As an output of `Unpack` is.
TEST_F(StepRecordTest, AViewIsOfTheStorageThatItLooksAt) {
  record_.watch(std::vector<std::string>{"make", "use"});
  ASSERT_TRUE(begin(1, "make"));
  const std::byte* const tensor = allocate();
  const SeenMemory view{tensor + kTensor.count / 2, Bytes{kTensor.count / 2}};
  end({seen(tensor), view});
  ASSERT_TRUE(begin(1, "use"));
  record_.reads(view);
  end();
  free(tensor);
  const auto trace = record_.take();
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->storages.size(), 1U);
  EXPECT_EQ(trace->ops.reads[OpIndex{1}].size(), 1U);
}

TEST_F(StepRecordTest, AVariableHasItsOwnNameAndATensorItsMakers) {
  record_.watch(std::vector<std::string>{"layer/read", "layer/use"});
  const std::byte* const variable = allocate();
  ASSERT_TRUE(begin(1, "layer/read", "ReadVariableOp"));
  record_.reads({variable, kTensor, "layer/kernel"});
  end({seen(variable)});
  ASSERT_TRUE(begin(1, "layer/use"));
  record_.reads(seen(variable));
  end({seen(allocate())});
  const auto trace = record_.take();
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->storages.size(), 2U);
  EXPECT_EQ(trace->storages.name[0], "layer/kernel");
  EXPECT_EQ(trace->storages.name[1], "layer/use");
}

TEST_F(StepRecordTest, TheLastOfTheHighestRunsIsKept) {
  record_.watch(std::vector<std::string>{"layer/make", "layer/use"});
  run_step(1, kMiB * 100);
  run_step(2, kMiB * 99);
  run_step(3, kMiB * 10);
  const auto trace = record_.take();
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->ops.workspace[1], kMiB * 99);
}

TEST(FinishedStepTest, AScopeIsTheNameWithoutCallsAndWithoutItsEnd) {
  EXPECT_EQ(scope_of("StatefulPartitionedCall/model/conv_1/Relu"), "model/conv_1");
  EXPECT_EQ(scope_of("while/body/_1/PartitionedCall_2/gradient_tape/model/Mul"),
            "gradient_tape/model");
  EXPECT_EQ(scope_of("Relu"), "");
  EXPECT_EQ(scope_of("StatefulPartitionedCall"), "");
  EXPECT_EQ(name_in_function("StatefulPartitionedCall_3/model/conv_1/Relu"), "model/conv_1/Relu");
  EXPECT_EQ(name_in_function("StatefulPartitionedCall"), "StatefulPartitionedCall");
}

TEST(FinishedStepTest, RolesFollowFromWhoUpdatesAndWhoReads) {
  Trace trace;
  const StorageId weight = trace.add(TraceStorage{.bytes = kMiB, .persistent = true});
  const StorageId momentum = trace.add(TraceStorage{.bytes = kMiB, .persistent = true});
  const StorageId mean = trace.add(TraceStorage{.bytes = kMiB, .persistent = true});
  const StorageId map = trace.add({.bytes = kMiB, .role = StorageRole::kActivation});
  const StorageId gradient = trace.add({.bytes = kMiB, .role = StorageRole::kActivation});
  trace.add({.name = "Conv2D", .module = "model/conv", .reads = {weight}, .creates = {map}});
  trace.add({.name = "AssignSubVariableOp", .module = "model/norm", .writes = {mean}});
  trace.add({.name = "Conv2DBackpropFilter",
             .module = "gradient_tape/model",
             .reads = {map},
             .creates = {gradient},
             .frees = {map}});
  trace.add({.name = "Mul", .module = "adam", .reads = {momentum, gradient}, .frees = {gradient}});
  trace.add({.name = "AssignAddVariableOp", .module = "adam", .writes = {momentum}});
  trace.add({.name = "AssignSubVariableOp", .module = "adam", .writes = {weight}});
  ASSERT_EQ(validate(trace), std::nullopt);
  tell_roles(trace);
  EXPECT_EQ(trace.storages.role, (std::vector{StorageRole::kParameter, StorageRole::kOptimizerState,
                                              StorageRole::kParameter, StorageRole::kActivation,
                                              StorageRole::kGradient}));
}

}  // namespace
}  // namespace spillway::tf
