// SPDX-License-Identifier: Apache-2.0
#include "blocking_kernel.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace spillway::tf {
namespace {

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
};

struct FakeKernel {
  virtual ~FakeKernel() = default;
  // The framework's names.
  // NOLINTBEGIN(readability-identifier-naming)
  virtual ::tensorflow::AsyncOpKernel* AsAsync() = 0;
  virtual void Compute(::tensorflow::OpKernelContext* /*context*/) {
    FakeOwner::get()->calls.emplace_back("copies");
  }
  // NOLINTEND(readability-identifier-naming)
};

TEST(BlockingKernelTest, ItsOwnerIsToldWhenItsThreadWaits) {
  Blocking<FakeKernel, FakeOwner> kernel;
  EXPECT_EQ(kernel.AsAsync(), nullptr);
  kernel.Compute(nullptr);
  EXPECT_THAT(FakeOwner::get()->calls,
              ElementsAre("begins to block", "copies", "has blocked since 7"));
}

}  // namespace
}  // namespace spillway::tf
