// SPDX-License-Identifier: Apache-2.0
// Engines that share one budget, as those of a process and of what multiprocessing starts for it.
#include <gtest/gtest.h>

#include "engine_fixture.hpp"

namespace spillway::runtime {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;

/// engine_ is the root, of 96 MiB.
class EngineSharedTest : public EngineTest {
 public:
  EngineSharedTest() { start(kMiB * 96); }
  ~EngineSharedTest() override { member_.stop(); }

 protected:
  Settings of_a_member() {
    Settings wanted = settings(kMiB * 96);
    wanted.budget_page = engine_.budget_page();
    return wanted;
  }
  FakeStorage* make_in_member(std::uint64_t bytes) {
    const FakeOp op(member_);
    return make_storage(member_, bytes);
  }

  FakeFramework& other_framework_ = *new FakeFramework();
  Engine& member_ = new_engine(other_framework_);
};

TEST_F(EngineSharedTest, AMemberWithoutABudgetOfItsOwnHasTheSharedOne) {
  Settings wanted = of_a_member();
  wanted.budget.reset();
  member_.start(wanted);
  EXPECT_EQ(member_.mode(), Mode::kEnforce);
  make_in_member(kBytes * 20);
  EXPECT_GE(engine_.statistics().shared, kMiB * 20);
}

TEST_F(EngineSharedTest, AMembersOwnLowerBudgetHolds) {
  Settings wanted = of_a_member();
  wanted.budget->bytes = kMiB * 16;
  member_.start(wanted);
  for (int i = 0; i < 6; ++i) make_in_member(kBytes * 4);
  EXPECT_LE(member_.budget(), kMiB * 16);
  const Statistics statistics = member_.statistics();
  EXPECT_LE(statistics.peak_device, kMiB * 16);
  EXPECT_GT(statistics.moves.evicted.count, 0U);
}

TEST_F(EngineSharedTest, AMemberThatStopsClaimsNothing) {
  member_.start(of_a_member());
  make_in_member(kBytes * 20);
  ASSERT_GE(engine_.statistics().shared, kMiB * 20);
  member_.stop();
  EXPECT_EQ(engine_.statistics().shared, Bytes{});
}

TEST_F(EngineSharedTest, AMemberWhoseOpsAreNotSeenClaimsToo) {
  member_.start(of_a_member());
  EXPECT_EQ(member_.reach(), kMiB * 96) << "the root holds nothing";
  member_.set_blind(true);
  std::byte* memory = member_.allocate(kBytes * 20);
  EXPECT_GE(engine_.statistics().shared, kMiB * 20);
  EXPECT_EQ(member_.statistics().overshoot, Bytes{});
  member_.free(memory);
  member_.set_blind(false);
}

// The root's ops are seen again once it holds nine tenths of its reach: see the adapters.
TEST_F(EngineSharedTest, WhatMembersClaimShortensTheRootsReach) {
  EXPECT_EQ(engine_.reach(), kMiB * 96);
  make(kBytes * 60, 1);
  engine_.set_blind(true);
  member_.start(of_a_member());
  make_in_member(kBytes * 40);
  std::byte* memory = engine_.allocate(kBytes);  // it looks at the page, and must not wait
  EXPECT_LE(engine_.reach(), kMiB * 56);
  engine_.free(memory);
  engine_.set_blind(false);
}

TEST_F(EngineSharedTest, TheRootIsToldTheWholeBudget) {
  member_.start(of_a_member());
  make_in_member(kBytes * 40);
  make(kBytes, 1);
  EXPECT_LT(engine_.budget(), kMiB * 96);
  EXPECT_EQ(engine_.statistics().budget, kMiB * 96);
}

}  // namespace
}  // namespace spillway::runtime
