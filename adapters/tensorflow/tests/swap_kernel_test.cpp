// SPDX-License-Identifier: Apache-2.0
#include "swap_kernel.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_card.hpp"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/public/version.h"

namespace spillway::tf {
namespace {

using DoneCallback = ::tensorflow::AsyncOpKernel::DoneCallback;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::testing::ElementsAre;

struct FakeOwner {
  static FakeOwner* get() {
    static FakeOwner owner;
    return &owner;
  }
  TimeNs begins_to_block() {
    calls.emplace_back("begins to block");
    return 7;
  }
  void has_blocked(TimeNs begun) { calls.push_back("has blocked since " + std::to_string(begun)); }

  std::vector<std::string> calls;
  std::thread::id copier;  // of the last copy
};

enum class Copy : std::uint8_t { kByAnotherThread, kAtOnce };

template <bool kBlocks, Copy kCopy>
class FakeSwap : public SwapKernel<FakeOwner> {
 public:
  explicit FakeSwap(OpKernelConstruction* construction) : SwapKernel(construction, kBlocks) {}
  ~FakeSwap() override {
    if (copier_.joinable()) copier_.join();
  }

 private:
  void begin(OpKernelContext* /*context*/, bool holds, DoneCallback done) override {
    FakeOwner::get()->calls.emplace_back(holds ? "copies, held" : "copies beside");
    if (kCopy == Copy::kAtOnce) {
      done();
      return;
    }
    copier_ = std::thread([done = std::move(done)] {
      FakeOwner::get()->copier = std::this_thread::get_id();
      done();
    });
  }

  std::thread copier_;
};

using Swap = FakeSwap<false, Copy::kByAnotherThread>;
using SwapAtOnce = FakeSwap<false, Copy::kAtOnce>;
using BlockingSwap = FakeSwap<true, Copy::kByAnotherThread>;
REGISTER_OP("SpillwayTestSwap");
REGISTER_OP("SpillwayTestSwapAtOnce");
REGISTER_OP("SpillwayTestBlockingSwap");
REGISTER_KERNEL_BUILDER(Name("SpillwayTestSwap").Device(::tensorflow::DEVICE_GPU), Swap);
REGISTER_KERNEL_BUILDER(Name("SpillwayTestSwapAtOnce").Device(::tensorflow::DEVICE_GPU),
                        SwapAtOnce);
REGISTER_KERNEL_BUILDER(Name("SpillwayTestBlockingSwap").Device(::tensorflow::DEVICE_GPU),
                        BlockingSwap);

enum class Kernels : std::uint8_t { kScheduled, kInline };

class SwapKernelTest : public ::testing::Test {
 protected:
  std::unique_ptr<OpKernel> kernel(const std::string& op) {
    ::tensorflow::NodeDef node;
    node.set_name(op);
    node.set_op(op);
    absl::Status status;
    auto made = ::tensorflow::CreateOpKernel(::tensorflow::DEVICE_GPU, &card_, &card_.memory(),
                                             node, TF_GRAPH_DEF_VERSION, &status);
    EXPECT_TRUE(status.ok()) << status;
    FakeOwner::get()->calls.clear();
    return made;
  }

  /// The thread that goes on behind it.
  std::thread::id run(OpKernel& kernel, Kernels kernels) {
    OpKernelContext::Params params;
    params.device = &card_;
    params.op_kernel = &kernel;
    params.run_all_kernels_inline = kernels == Kernels::kInline;
    OpKernelContext context(&params);
    std::promise<std::thread::id> goes_on;
    kernel.AsAsync()->ComputeAsync(&context,
                                   [&] { goes_on.set_value(std::this_thread::get_id()); });
    return goes_on.get_future().get();
  }

  testing::FakeCard card_{kMiB, kMiB};
};

TEST_F(SwapKernelTest, WhatBlocksIsSynchronousAndItsOwnerIsTold) {
  const auto blocking = kernel("SpillwayTestBlockingSwap");
  EXPECT_EQ(blocking->AsAsync(), nullptr);
  blocking->Compute(nullptr);
  EXPECT_THAT(FakeOwner::get()->calls,
              ElementsAre("begins to block", "copies, held", "has blocked since 7"));
}

// An executor of one thread calls every kernel by Compute().
TEST_F(SwapKernelTest, CalledByComputeItEndsWithItsCopy) {
  kernel("SpillwayTestSwap")->Compute(nullptr);
  EXPECT_THAT(FakeOwner::get()->calls,
              ElementsAre("begins to block", "copies, held", "has blocked since 7"));
}

TEST_F(SwapKernelTest, ItHoldsNoThreadElse) {
  const auto swap = kernel("SpillwayTestSwap");
  EXPECT_EQ(run(*swap, Kernels::kScheduled), FakeOwner::get()->copier);
  EXPECT_THAT(FakeOwner::get()->calls, ElementsAre("copies beside"));
}

TEST_F(SwapKernelTest, WhereKernelsRunInlineNoThreadThatCopiesGoesOn) {
  const auto swap = kernel("SpillwayTestSwap");
  const std::thread::id goes_on = run(*swap, Kernels::kInline);
  EXPECT_NE(goes_on, FakeOwner::get()->copier);
  EXPECT_NE(goes_on, std::this_thread::get_id()) << "which has returned";
  EXPECT_THAT(FakeOwner::get()->calls, ElementsAre("copies beside"));
}

TEST_F(SwapKernelTest, WhereKernelsRunInlineWhatEndsAtOnceNeedsNoThread) {
  const auto swap = kernel("SpillwayTestSwapAtOnce");
  EXPECT_EQ(run(*swap, Kernels::kInline), std::this_thread::get_id());
}

}  // namespace
}  // namespace spillway::tf
