// SPDX-License-Identifier: Apache-2.0
// Blocks that are made ready for allocations to come (StreamTier::expect).
#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <vector>

#include "device_fixture.hpp"
#include "mapping_driver.hpp"
#include "spillway/runtime/device/stream_tier.hpp"

namespace spillway::runtime {
namespace {

class ExpectedBlocksTest : public DeviceFixture {
 public:
  ~ExpectedBlocksTest() override {
    driver_.release_held();
    tier_.reset();
    EXPECT_EQ(device_.used(), Bytes{0}) << "not all was given back";
  }

 protected:
  void begin(OpensAhead ahead) { tier_.emplace(clock_, kGranule * 4, kMiB, ahead); }
  void expect(std::initializer_list<std::uint64_t> granules) {
    std::vector<Bytes> blocks;
    for (const std::uint64_t count : granules) blocks.push_back(kGranule * count);
    tier_->expect(blocks);
  }
  Allocation allocate(std::uint64_t granules) {
    return tier_->allocate(kGranule * granules, Overbooking::kRefuse, tier_->number(one_));
  }
  void settle() {
    while (tier_->coming() != Bytes{0}) tier_->settle();
  }
  /// What is held is accounted for, and the card's. What waits for a thread has no memory yet.
  void expect_held(std::uint64_t granules) {
    const VmmPages& pages = tier_->pages();
    EXPECT_EQ(tier_->budget().used(), kGranule * granules);
    EXPECT_EQ(tier_->budget().used(), pages.mapped() + pages.leaving() + pages.ready());
    EXPECT_LE(device_.used(), tier_->budget().used());
  }

  MappingDriver driver_{device_};
  StreamClock clock_{driver_};
  std::optional<StreamTier> tier_{std::in_place, clock_, kGranule * 4, kMiB};
};

TEST_F(ExpectedBlocksTest, AnAllocationTakesTheBlockThatIsReadyForIt) {
  expect({1, 2});
  expect_held(3);
  EXPECT_EQ(tier_->live(), Bytes{0}) << "they are nobody's yet";
  const int before = driver_.calls_of_program();
  const Allocation made = allocate(2);
  EXPECT_TRUE(made.opened) << "or the next step would not expect it";
  EXPECT_EQ(driver_.calls_of_program(), before);
  EXPECT_EQ(tier_->live(), kGranule * 2);
  expect_held(3);
}

TEST_F(ExpectedBlocksTest, AnAllocationSaysWhetherABlockWasOpenedForIt) {
  const Allocation made = allocate(1);
  EXPECT_TRUE(made.opened);
  tier_->free_block(*made.block);
  EXPECT_FALSE(allocate(1).opened) << "a freed block was there";
}

TEST_F(ExpectedBlocksTest, WhatIsExpectedStillIsMadeReadyOnce) {
  expect({1, 2});
  expect({1, 2});
  expect_held(3);
  expect({2, 1, 1});
  expect_held(4);
}

TEST_F(ExpectedBlocksTest, WhatIsNotExpectedAnyMoreIsGivenUp) {
  expect({1, 3});
  expect({2, 1});
  settle();
  expect({2, 1});
  EXPECT_EQ(tier_->pages().mapped(), kGranule * 3);
  EXPECT_TRUE(allocate(2).opened);
  expect({});
  EXPECT_EQ(tier_->pages().mapped(), kGranule * 2);
}

//   expected  2 1      1 2        the last is given up first
TEST_F(ExpectedBlocksTest, TheLatestWordSaysWhatIsNeededFirst) {
  expect({2, 1});
  expect({1, 2});
  ASSERT_NE(allocate(3).pointer, nullptr);
  EXPECT_EQ(tier_->pages().mapped(), kGranule * 4);
  const int before = driver_.calls_of_program();
  EXPECT_NE(allocate(1).pointer, nullptr);
  EXPECT_EQ(driver_.calls_of_program(), before) << "it was ready still";
}

TEST_F(ExpectedBlocksTest, WhatCannotBeHadClosesNoFreedBlock) {
  ASSERT_NE(allocate(2).pointer, nullptr);
  const Allocation freed = allocate(1);
  tier_->free_block(*freed.block);
  expect({3});
  EXPECT_EQ(allocate(1).block, freed.block);
}

//   freed 3        expect 4: the thread unmaps those, and the next look opens what needs them
TEST_F(ExpectedBlocksTest, WhatAGuessNeedsUnmappedTheThreadUnmaps) {
  begin(OpensAhead::kOnThread);
  const Allocation freed = allocate(3);
  tier_->free_block(*freed.block);
  static_cast<void>(tier_->unavailable());  // which has the device tell
  ASSERT_TRUE(device_.synchronize().done());
  const int unmapped = driver_.unmaps_of_program();
  expect({4});
  driver_.wait_until_others_unmapped(1);
  while (tier_->coming() != Bytes{0}) expect({4});
  expect({4});
  EXPECT_EQ(driver_.unmaps_of_program(), unmapped);
  EXPECT_TRUE(allocate(4).opened);
  expect_held(4);
}

//   freed 1, 1     the thread is at another block     expect 1, again and again: one is closed
TEST_F(ExpectedBlocksTest, WhatIsBeingUnmappedForAGuessCounts) {
  begin(OpensAhead::kOnThread);
  const Allocation first = allocate(1);
  const Allocation second = allocate(1);
  tier_->free_block(*first.block);
  tier_->free_block(*second.block);
  static_cast<void>(tier_->unavailable());
  ASSERT_TRUE(device_.synchronize().done());
  driver_.hold();
  expect({2});
  driver_.wait_until_held();
  for (int i = 0; i < 3; ++i) expect({2, 1});
  EXPECT_EQ(tier_->pages().leaving(), kGranule);
  EXPECT_EQ(allocate(1).block, second.block) << "it stays as it was";
  driver_.release_held();
}

// As where a card is full of others' memory.
TEST_F(ExpectedBlocksTest, NothingIsOpenedForAGuessWhereOpeningAheadFailed) {
  begin(OpensAhead::kOnCall);
  expect({1});
  device_.fail(DeviceCall::kCreate, 1, ThreadDevice::kOutOfMemory);
  EXPECT_TRUE(tier_->open_next());
  expect({});
  const int before = driver_.calls_of_program();
  expect({2});
  EXPECT_EQ(driver_.calls_of_program(), before);
  expect_held(0);
}

TEST_F(ExpectedBlocksTest, NoMoreIsMadeReadyThanThereIsRoomFor) {
  ASSERT_NE(allocate(2).pointer, nullptr);
  expect({1, 2, 1});
  expect_held(3);
}

TEST_F(ExpectedBlocksTest, AFreedBlockOfTheSizeIsTakenFirst) {
  const Allocation made = allocate(1);
  tier_->free_block(*made.block);
  expect({1});
  EXPECT_EQ(allocate(1).block, made.block);
  EXPECT_TRUE(allocate(1).opened);
}

TEST_F(ExpectedBlocksTest, FreedBlocksOfOtherSizesMakeRoom) {
  tier_->free_block(*allocate(4).block);
  expect({3});  // which has the device tell when work has let go of it
  ASSERT_TRUE(device_.synchronize().done());
  expect({3});
  settle();
  expect({3});
  EXPECT_EQ(tier_->pages().mapped(), kGranule * 3);
  EXPECT_TRUE(allocate(3).opened);
}

TEST_F(ExpectedBlocksTest, ABlockThatIsReadyMakesRoomForWhoNeedsIt) {
  expect({1, 3});
  ASSERT_NE(allocate(2).pointer, nullptr) << "the last that was expected had the room";
  EXPECT_EQ(tier_->pages().mapped(), kGranule * 3);
  ASSERT_NE(allocate(1).pointer, nullptr);
  expect_held(3);
}

TEST_F(ExpectedBlocksTest, ABlockThatIsReadyMakesNoRoomForAFetchAhead) {
  DeviceBlock& away = *allocate(2).block;
  tier_->evict(away);
  settle();
  expect({3});
  EXPECT_EQ(tier_->restore_ahead(away, Overbooking::kRefuse).pointer, nullptr);
  EXPECT_NE(tier_->restore(away, Overbooking::kRefuse).pointer, nullptr);
}

TEST_F(ExpectedBlocksTest, WhatIsIdleIsGivenBackAndWhatIsAboveALimit) {
  expect({1, 2});
  tier_->release_idle();
  expect_held(0);
  expect({1, 2});
  tier_->set_limit(kGranule);
  while (tier_->obey_limit() != Bytes{0}) tier_->settle();
  EXPECT_LE(tier_->budget().used(), kGranule);
}

//   one   ====== writes the block ======|        two   after it
TEST_F(ExpectedBlocksTest, ABlockWhosePagesAreStillLeavingIsOrderedAfterItsLastUse) {
  HeldStream held(device_, one_);
  DeviceBlock& block = *allocate(4).block;
  tier_->begin_use(block, tier_->number(one_));
  tier_->end_use(block, tier_->number(one_));
  tier_->free_block(block);
  EXPECT_EQ(allocate(3).pointer, nullptr) << "it gave up its pages";
  expect({4});
  const Allocation again = tier_->allocate(kGranule * 4, Overbooking::kRefuse, tier_->number(two_));
  EXPECT_EQ(again.block, &block);
  EXPECT_FALSE(idle(two_));
  held.release();
  EXPECT_TRUE(device_.synchronize_stream(two_).done());
}

TEST_F(ExpectedBlocksTest, AThreadMapsWhatIsExpected) {
  begin(OpensAhead::kOnThread);
  const int before = driver_.calls_of_program();
  expect({2});
  while (driver_.calls_of_others() != 3) std::this_thread::yield();
  EXPECT_NE(allocate(2).pointer, nullptr);
  EXPECT_EQ(driver_.calls_of_program(), before);
}

TEST_F(ExpectedBlocksTest, WhoNeedsABlockThatWaitsForTheThreadOpensIt) {
  begin(OpensAhead::kOnCall);
  expect({2});
  EXPECT_EQ(device_.used(), Bytes{0});
  EXPECT_NE(allocate(2).pointer, nullptr);
  EXPECT_EQ(device_.used(), kGranule * 2);
  EXPECT_TRUE(tier_->open_next());
  expect_held(2);
}

TEST_F(ExpectedBlocksTest, WhatTheThreadHasNotOpenedYetIsGivenUpWithoutACall) {
  begin(OpensAhead::kOnCall);
  expect({4});
  EXPECT_NE(allocate(3).pointer, nullptr);
  expect_held(3);
  EXPECT_TRUE(tier_->open_next());
  EXPECT_EQ(device_.used(), kGranule * 3);
}

TEST_F(ExpectedBlocksTest, WhatCannotBeOpenedAheadIsOpenedForTheAllocation) {
  for (const DeviceCall call : {DeviceCall::kCreate, DeviceCall::kMap, DeviceCall::kAllowAccess}) {
    begin(OpensAhead::kOnCall);
    expect({2});
    device_.fail(call, 1, ThreadDevice::kOutOfMemory);
    EXPECT_NE(allocate(2).pointer, nullptr) << static_cast<int>(call);
    expect_held(2);
  }
}

TEST_F(ExpectedBlocksTest, NothingIsLeftOfWhatNobodyTook) {
  begin(OpensAhead::kOnThread);
  driver_.hold();
  expect({1, 1, 2});
  driver_.wait_until_held();
}

}  // namespace
}  // namespace spillway::runtime
