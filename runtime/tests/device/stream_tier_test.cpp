// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/stream_tier.hpp"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device_fixture.hpp"

namespace spillway::runtime {
namespace {

using ::testing::HasSubstr;

class StreamTierTest : public DeviceFixture {
 protected:
  static DeviceAddress address(const DeviceBlock& block) { return device_address(block.address); }
  DeviceBlock* allocate(Bytes bytes, DeviceStream stream) {
    return tier_.allocate(bytes, Overbooking::kRefuse, tier_.number(stream)).block;
  }
  void write(DeviceBlock& block, DeviceStream stream, int value) {
    tier_.begin_use(block, tier_.number(stream));
    ASSERT_TRUE(device_.fill(address(block), std::byte(value), {block.bytes}, stream).done());
    tier_.end_use(block, tier_.number(stream));
  }
  int first_byte(DeviceBlock& block) {
    std::byte seen{};
    tier_.read_back(block, {1}, &seen);
    return static_cast<int>(seen);
  }
  void settle() {
    while (tier_.coming() != Bytes{0}) tier_.settle();
  }
  /// Of 21 granules, no more than 6 of them at once.
  void step_of_sizes() {
    for (const std::uint64_t granules : {1U, 2U, 3U, 4U, 5U, 6U}) {
      tier_.free_block(*allocate(kGranule * granules, one_));
      settle();
    }
  }

  StreamTier tier_{clock_, kGranule * 4, kMiB};
};

TEST_F(StreamTierTest, ABlockIsWholeGranulesAndFoundByEachOfItsAddresses) {
  DeviceBlock* const block = allocate({5'000}, one_);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(tier_.resident(*block), kGranule * 2);
  EXPECT_EQ(tier_.rounding(*block), Bytes{kGranule.count * 2 - 5'000});
  EXPECT_EQ(tier_.live(), kGranule * 2);
  EXPECT_EQ(device_.used(), kGranule * 2);
  EXPECT_EQ(tier_.find(block->address), block);
  EXPECT_EQ(tier_.find(block->address + 8'191), block);
  EXPECT_EQ(tier_.find(block->address + 8'192), nullptr);
  EXPECT_EQ(tier_.find(block->address - 1), nullptr);
  EXPECT_EQ(tier_.find(&tier_), nullptr);
}

TEST_F(StreamTierTest, WithoutRoomItSaysHowMuchIsMissing) {
  ASSERT_NE(allocate(kGranule * 3, one_), nullptr);
  const Allocation lacking = tier_.allocate(kGranule * 2, Overbooking::kRefuse, tier_.number(one_));
  EXPECT_EQ(lacking.pointer, nullptr);
  EXPECT_EQ(lacking.short_by, kGranule);
  const Allocation more = tier_.allocate(kGranule * 2, Overbooking::kAllow, tier_.number(one_));
  EXPECT_NE(more.pointer, nullptr);
  EXPECT_EQ(tier_.budget().used(), kGranule * 5);
}

// The budget has room, but the card none: others have its memory.
TEST_F(StreamTierTest, MemoryThatOthersHoldIsMissingToo) {
  tier_.set_limit(kMiB * 2);
  DeviceBlock* const block = allocate(kGranule, one_);
  ASSERT_NE(block, nullptr);
  device_.fail(DeviceCall::kCreate, 1, ThreadDevice::kOutOfMemory);
  const Allocation lacking = tier_.allocate(kGranule * 2, Overbooking::kRefuse, tier_.number(one_));
  EXPECT_EQ(lacking.pointer, nullptr);
  EXPECT_EQ(lacking.short_by, kGranule * 2);
}

// As in each step of a program that fits: what one part of it frees, another part has not.
TEST_F(StreamTierTest, WhatWasNeededAtOnceStaysMapped) {
  tier_.set_limit(kMiB);
  std::vector<DeviceBlock*> first;
  for (const std::uint64_t granules : {1U, 2U, 3U, 4U})
    first.push_back(allocate(kGranule * granules, one_));
  for (DeviceBlock* block : first) tier_.free_block(*block);
  const std::size_t created = tier_.pages().created_handles();
  for (int step = 0; step < 3; ++step) {
    for (const std::uint64_t granules : {4U, 2U, 1U, 3U}) {
      DeviceBlock* const block = allocate(kGranule * granules, one_);
      ASSERT_NE(block, nullptr);
      tier_.free_block(*block);
      settle();
    }
  }
  EXPECT_EQ(tier_.pages().created_handles(), created);
  EXPECT_EQ(tier_.budget().used(), kGranule * 10);
}

TEST_F(StreamTierTest, NoMoreStaysMappedThanWasNeededAtOnceAndSome) {
  tier_.set_limit(kMiB);
  tier_.set_cache_slack(0.5);
  for (std::uint64_t granules = 1; granules < 12; ++granules) {
    tier_.free_block(*allocate(kGranule * granules, one_));
    settle();
  }
  EXPECT_EQ(tier_.peak_live(), kGranule * 11);
  allocate(kGranule, one_);
  settle();
  tier_.obey_limit();
  EXPECT_LE(tier_.budget().used().count, (kGranule * 33).count / 2);
}

// A block serves one size alone, so a step may need more pages than its peak.
TEST_F(StreamTierTest, WhatEachStepNeedsAgainStaysMapped) {
  tier_.set_limit(kMiB);
  for (int i = 0; i < 3; ++i) step_of_sizes();
  const std::size_t created = tier_.pages().created_handles();
  const std::size_t recycled = tier_.pages().recycled_handles();
  step_of_sizes();
  EXPECT_EQ(tier_.pages().created_handles(), created);
  EXPECT_EQ(tier_.pages().recycled_handles(), recycled);
  EXPECT_EQ(tier_.peak_live(), kGranule * 6);
  EXPECT_EQ(tier_.budget().used(), kGranule * 21);
}

// However much the program needs again, the limit holds, and what is idle goes back when it asks.
TEST_F(StreamTierTest, WhatIsNeededAgainObeysTheLimit) {
  tier_.set_limit(kMiB);
  for (int i = 0; i < 3; ++i) step_of_sizes();
  tier_.set_limit(kGranule * 8);
  tier_.obey_limit();
  settle();
  EXPECT_EQ(tier_.obey_limit(), Bytes{});
  EXPECT_LE(tier_.budget().used(), kGranule * 8);
  tier_.set_limit(kMiB);
  for (int i = 0; i < 3; ++i) step_of_sizes();
  tier_.release_idle();
  EXPECT_EQ(tier_.budget().used(), Bytes{});
  step_of_sizes();
  EXPECT_LT(tier_.budget().used(), kGranule * 21) << "as before it was seen";
}

// Others have the rest of the card: what nobody uses of ours makes room.
TEST_F(StreamTierTest, FreedBlocksMakeRoomOnAFullCard) {
  tier_.set_limit(kMiB);
  DeviceBlock* const block = allocate(kGranule * 4, one_);
  PagesHandle others{};
  ASSERT_TRUE(device_.create(kMiB - kGranule * 4, others).done());
  HeldStream held(device_, one_);
  write(*block, one_, 1);
  tier_.free_block(*block);
  EXPECT_EQ(allocate(kGranule * 3, one_), nullptr) << "its pages are on the way";
  held.release();
  settle();
  EXPECT_NE(allocate(kGranule * 3, one_), nullptr);
  ASSERT_TRUE(device_.release(others).done());
}

//   one   [held] write | free | allocate     the same block, at once
TEST_F(StreamTierTest, WhatAStreamFreedItHasAgainWithoutWaiting) {
  DeviceBlock* const block = allocate(kGranule, one_);
  HeldStream held(device_, one_);
  write(*block, one_, 1);
  std::byte* const was_at = block->address;
  tier_.free_block(*block);
  EXPECT_EQ(tier_.live(), Bytes{0});
  DeviceBlock* const again = allocate(kGranule, one_);
  EXPECT_EQ(again->address, was_at);
  write(*again, one_, 2);
  held.release();
  EXPECT_EQ(first_byte(*again), 2);
}

//   one   [held] write | free          two   allocate, write: after one
TEST_F(StreamTierTest, AnotherStreamHasItAfterTheFence) {
  DeviceBlock* const block = allocate(kGranule, one_);
  HeldStream held(device_, one_);
  write(*block, one_, 1);
  tier_.free_block(*block);
  DeviceBlock* const again = allocate(kGranule, two_);
  ASSERT_EQ(again, block);
  write(*again, two_, 2);
  EXPECT_FALSE(idle(two_)) << "it waits on the device";
  held.release();
  EXPECT_EQ(first_byte(*again), 2);
}

TEST_F(StreamTierTest, PagesLeaveWhenTheHostHasSeenTheFenceAndAreWholeUntilThen) {
  DeviceBlock* const block = allocate(kGranule, one_);
  HeldStream held(device_, one_);
  write(*block, one_, 7);
  tier_.seal(*block);
  tier_.evict(*block);
  EXPECT_EQ(tier_.resident(*block), Bytes{0});
  EXPECT_EQ(tier_.live(), Bytes{0});
  EXPECT_FALSE(tier_.settle());
  EXPECT_EQ(tier_.coming(), kGranule);
  const Allocation back = tier_.restore(*block, Overbooking::kRefuse);
  EXPECT_EQ(back.pointer, block->address);
  EXPECT_TRUE(block->intact) << "nobody had taken them";
  EXPECT_EQ(tier_.coming(), Bytes{0});
  tier_.evict(*block);
  held.release();
  settle();
  ASSERT_NE(tier_.restore(*block, Overbooking::kRefuse).pointer, nullptr);
  EXPECT_FALSE(block->intact);
}

TEST_F(StreamTierTest, WhatIsToldNowhereIsUsedOnAllStreams) {
  DeviceBlock* const block = allocate(kGranule, one_);
  tier_.begin_use_anywhere(*block);
  HeldStream held(device_, two_);
  ASSERT_TRUE(device_.fill(address(*block), std::byte{9}, kGranule, two_).done());
  clock_.tick(clock_.slot_of(two_));
  tier_.evict(*block);
  EXPECT_FALSE(tier_.settle()) << "the other stream may have its address";
  held.release();
  settle();
}

//   IN    [held] copy          one, two   use: each after it
TEST_F(StreamTierTest, EachStreamWaitsOnceForACopyIn) {
  DeviceBlock* const block = allocate(kGranule, one_);
  const DeviceStream in = stream();
  HeldStream held(device_, in);
  ASSERT_TRUE(device_.fill(address(*block), std::byte{3}, kGranule, in).done());
  tier_.arrives(*block, clock_.fence(clock_.slot_of(in)));
  EXPECT_TRUE(device_.synchronize_stream(one_).done()) << "it does not wait yet";
  tier_.begin_use(*block, tier_.number(one_));
  EXPECT_FALSE(idle(one_));
  EXPECT_TRUE(device_.synchronize_stream(two_).done()) << "nor does this one";
  tier_.begin_use(*block, tier_.number(two_));
  EXPECT_FALSE(idle(two_));
  held.release();
  EXPECT_EQ(first_byte(*block), 3);
}

//   IN    copy | [held] a later copy, of another block
//   one   use                                            its pages can leave
TEST_F(StreamTierTest, LaterCopiesInAreNotAwaitedForABlockThatWasUsedSince) {
  DeviceBlock* const block = allocate(kGranule, one_);
  const DeviceStream in = stream();
  ASSERT_TRUE(device_.fill(address(*block), std::byte{3}, kGranule, in).done());
  tier_.arrives(*block, clock_.fence(clock_.slot_of(in)));
  clock_.tick(clock_.slot_of(in));
  const HeldStream held(device_, in);
  write(*block, one_, 4);
  clock_.tick(clock_.slot_of(one_));
  ASSERT_TRUE(device_.synchronize_stream(one_).done());
  tier_.evict(*block);
  settle();
  EXPECT_EQ(tier_.coming(), Bytes{0});
}

//   IN    [held] copy          one   tick | use: waits for the copy, so the pages stay
TEST_F(StreamTierTest, AUseThatWaitsForACopyInIsNotOverBefore) {
  DeviceBlock* const block = allocate(kGranule, one_);
  const DeviceStream in = stream();
  HeldStream held(device_, in);
  ASSERT_TRUE(device_.fill(address(*block), std::byte{3}, kGranule, in).done());
  tier_.arrives(*block, clock_.fence(clock_.slot_of(in)));
  clock_.tick(clock_.slot_of(one_));  // before the wait
  ASSERT_TRUE(device_.synchronize_stream(one_).done());
  tier_.begin_use(*block, tier_.number(one_));
  tier_.evict(*block);
  EXPECT_FALSE(tier_.settle());
  EXPECT_EQ(tier_.coming(), kGranule);
  held.release();
  settle();
}

//   IN    [held] copy          nobody uses it: the copy is awaited
TEST_F(StreamTierTest, ACopyInIsAwaitedWhereNobodyUsesTheBlock) {
  DeviceBlock* const block = allocate(kGranule, one_);
  const DeviceStream in = stream();
  HeldStream held(device_, in);
  ASSERT_TRUE(device_.fill(address(*block), std::byte{3}, kGranule, in).done());
  tier_.arrives(*block, clock_.fence(clock_.slot_of(in)));
  tier_.evict(*block);
  EXPECT_FALSE(tier_.settle());
  held.release();
  settle();
}

//   two   use of what the block was | IN   [held] copy for the next     two notes its use's end
TEST_F(StreamTierTest, AUseOfWhatTheBlockWasHidesNoCopyIn) {
  DeviceBlock* const block = allocate(kGranule, two_);
  tier_.begin_use(*block, tier_.number(two_));
  const DeviceStream in = stream();
  HeldStream held(device_, in);
  ASSERT_TRUE(device_.fill(address(*block), std::byte{3}, kGranule, in).done());
  tier_.arrives(*block, clock_.fence(clock_.slot_of(in)));
  tier_.end_use(*block, tier_.number(two_));
  clock_.tick(clock_.slot_of(two_));
  ASSERT_TRUE(device_.synchronize_stream(two_).done());
  tier_.evict(*block);
  EXPECT_FALSE(tier_.settle()) << "the copy fills it still";
  held.release();
  settle();
}

//   one   [held] use          IN   a fetch that fails before it copies: the use is awaited still
TEST_F(StreamTierTest, AFetchThatBroughtNothingLeavesTheUsesAsTheyWere) {
  DeviceBlock* const block = allocate(kGranule, one_);
  HeldStream held(device_, one_);
  write(*block, one_, 1);
  tier_.arrives(*block, Fence{});
  tier_.evict(*block);
  EXPECT_FALSE(tier_.settle());
  EXPECT_EQ(tier_.coming(), kGranule);
  held.release();
  settle();
}

//   one   [held] use a | free a     two   use b | free b: b makes room, though a was freed first
TEST_F(StreamTierTest, ABlockThatASlowStreamFreedHidesNoOther) {
  DeviceBlock* const away = allocate(kGranule * 2, one_);
  tier_.evict(*away);
  settle();
  DeviceBlock* const slow = allocate(kGranule, one_);
  DeviceBlock* const quick = allocate(kGranule * 3, two_);
  HeldStream held(device_, one_);
  write(*slow, one_, 1);
  tier_.free_block(*slow);
  tier_.free_block(*quick);
  static_cast<void>(tier_.unavailable());  // which has the device tell
  ASSERT_TRUE(device_.synchronize_stream(two_).done());
  EXPECT_EQ(tier_.unavailable(), kGranule);
  EXPECT_NE(tier_.restore_ahead(*away, Overbooking::kRefuse).pointer, nullptr);
  held.release();
}

//   one   [held] use | free          two   tick | allocate: waits for one
TEST_F(StreamTierTest, ABlockThatWasHandedOnWaitsForItsFormerStream) {
  DeviceBlock* const block = allocate(kGranule, one_);
  HeldStream held(device_, one_);
  write(*block, one_, 1);
  tier_.free_block(*block);
  clock_.tick(clock_.slot_of(two_));  // before the wait
  ASSERT_TRUE(device_.synchronize_stream(two_).done());
  DeviceBlock* const again = allocate(kGranule, two_);
  ASSERT_EQ(again, block);
  tier_.evict(*again);
  EXPECT_FALSE(tier_.settle()) << "two waits for one";
  EXPECT_EQ(tier_.coming(), kGranule);
  held.release();
  settle();
}

//   one   [held] use a | free a          b may not have its pages yet, and nothing is given up for
//   it
TEST_F(StreamTierTest, WhatWorkStillUsesIsUnavailableAndNotGivenUpAheadOfNeed) {
  DeviceBlock* const away = allocate(kGranule * 2, one_);
  tier_.evict(*away);
  settle();
  DeviceBlock* const first = allocate(kGranule, one_);
  DeviceBlock* const second = allocate(kGranule * 3, two_);
  clock_.tick(clock_.slot_of(two_));
  ASSERT_TRUE(device_.synchronize_stream(two_).done());
  HeldStream held(device_, one_);
  write(*first, one_, 1);
  tier_.free_block(*first);
  EXPECT_EQ(tier_.unavailable(), kGranule);
  EXPECT_EQ(tier_.restore_ahead(*away, Overbooking::kRefuse).pointer, nullptr);
  EXPECT_EQ(tier_.coming(), Bytes{0}) << "an op may have it again at once";
  EXPECT_EQ(allocate(kGranule, one_), first);
  tier_.free_block(*first);
  tier_.free_block(*second);
  held.release();
  static_cast<void>(tier_.unavailable());  // which has the device tell
  ASSERT_TRUE(device_.synchronize().done());
  EXPECT_EQ(tier_.unavailable(), Bytes{0});
  EXPECT_NE(tier_.restore_ahead(*away, Overbooking::kRefuse).pointer, nullptr);
}

TEST_F(StreamTierTest, WhatIsFreedOnAnyThreadIsTakenLater) {
  DeviceBlock* const block = allocate(kGranule, one_);
  tier_.free_later(block->address);
  EXPECT_EQ(tier_.live(), kGranule);
  std::vector<DeviceBlock*> records;
  tier_.take_freed(records);
  EXPECT_TRUE(records.empty()) << "it was nobody's storage";
  EXPECT_EQ(tier_.live(), Bytes{0});
}

TEST_F(StreamTierTest, PoisonOverwritesWhatIsFreedAfterItsUses) {
  tier_.set_poison(Poison::kYes);
  DeviceBlock* const block = allocate(kGranule, one_);
  HeldStream held(device_, one_);
  write(*block, one_, 1);
  tier_.free_block(*block);
  held.release();
  DeviceBlock* const again = allocate(kGranule, one_);
  ASSERT_EQ(again, block);
  EXPECT_EQ(first_byte(*again), 0xcb);
}

TEST_F(StreamTierTest, ALowerLimitIsReachedAtTheNextAllocation) {
  DeviceBlock* const first = allocate(kGranule * 2, one_);
  DeviceBlock* const second = allocate(kGranule * 2, one_);
  tier_.free_block(*first);
  tier_.set_limit(kGranule * 2);
  EXPECT_EQ(allocate(kGranule, one_), nullptr);
  settle();
  EXPECT_EQ(allocate(kGranule, one_), nullptr);
  EXPECT_EQ(tier_.budget().used(), kGranule * 2);
  tier_.free_block(*second);
  tier_.release_idle();
  EXPECT_EQ(device_.used(), Bytes{0});
}

TEST_F(StreamTierTest, ALostDeviceEndsInWords) {
  DeviceBlock* const block = allocate(kGranule, one_);
  device_.lose();
  EXPECT_THROW(allocate(kGranule, one_), DeviceFailure);
  std::byte seen{};
  try {
    tier_.read_back(*block, {1}, &seen);
    FAIL();
  } catch (const DeviceFailure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("failed while"));
  }
  tier_.free_block(*block);
}

}  // namespace
}  // namespace spillway::runtime
