// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/stream_residency.hpp"

#include <gmock/gmock.h>

#include <optional>

#include "device_fixture.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

class StreamResidencyTest : public DeviceFixture {
 protected:
  /// Fills the storage on a stream.
  void write(StorageId id, DeviceStream stream, int value) {
    const auto address = residency_.use(id, stream, DeviceUse::kWrite);
    ASSERT_TRUE(address);
    ASSERT_TRUE(device_.fill(*address, std::byte(value), kGranule, stream).done());
    residency_.used(id, stream);
  }
  /// Its first byte, when the work before is done.
  int read(StorageId id, DeviceStream stream) {
    std::byte seen{};
    const auto address = residency_.use(id, stream, DeviceUse::kRead);
    EXPECT_TRUE(address);
    if (!address) return -1;
    const auto look = [&](std::span<std::byte* const> at) { seen = at[0][0]; };
    EXPECT_TRUE(device_.launch(stream, {{*address, kGranule}}, look).done());
    residency_.used(id, stream);
    EXPECT_TRUE(device_.synchronize_stream(stream).done());
    return static_cast<int>(seen);
  }
  /// Until its eviction has ended.
  void settle(StorageId id) {
    while (residency_.state(id) == ResidencyState::kEvicting) residency_.advance();
  }

  MemoryBudget budget_{kGranule * 2};
  VmmPages pages_{clock_, budget_, kMiB};
  PinnedHostMemory host_{clock_, kGranule * 2, kGranule * 2};
  StreamTransfers transfers_{clock_};
  StreamResidency residency_{pages_, host_, transfers_, clock_};
};

//   one    [held] write     evict: OUT waits on the device, the host goes on
TEST_F(StreamResidencyTest, AnEvictionHoldsNobodyUp) {
  const StorageId id = *residency_.create(kGranule, one_);
  HeldStream held(device_, one_);
  write(id, one_, 3);
  ASSERT_TRUE(residency_.evict(id));
  residency_.advance();
  residency_.advance();
  EXPECT_EQ(residency_.state(id), ResidencyState::kEvicting);
  held.release();
  settle(id);
  EXPECT_EQ(residency_.state(id), ResidencyState::kOnHost);
  EXPECT_EQ(read(id, two_), 3);
}

TEST_F(StreamResidencyTest, AReadMeanwhileHasTheBytesStay) {
  const StorageId id = *residency_.create(kGranule, one_);
  HeldStream held(device_, one_);
  write(id, one_, 3);
  ASSERT_TRUE(residency_.evict(id));
  residency_.advance();
  EXPECT_TRUE(residency_.use(id, two_, DeviceUse::kRead));
  residency_.used(id, two_);
  held.release();
  settle(id);
  EXPECT_EQ(residency_.state(id), ResidencyState::kResident);
  EXPECT_TRUE(residency_.evict(id));
  EXPECT_EQ(residency_.state(id), ResidencyState::kOnHost) << "its copy is there: it left cleanly";
}

TEST_F(StreamResidencyTest, AWriteMeanwhileSpoilsTheCopy) {
  const StorageId id = *residency_.create(kGranule, one_);
  HeldStream held(device_, one_);
  write(id, one_, 3);
  ASSERT_TRUE(residency_.evict(id));
  residency_.advance();
  write(id, one_, 4);
  held.release();
  settle(id);
  EXPECT_EQ(residency_.state(id), ResidencyState::kResident);
  EXPECT_EQ(host_.used(), Bytes{0}) << "nobody needs it";
  EXPECT_EQ(read(id, one_), 4);
}

TEST_F(StreamResidencyTest, AWriteTakesACopyBackThatIsOnlyQueued) {
  const StorageId id = *residency_.create(kGranule, one_);
  write(id, one_, 3);
  ASSERT_TRUE(residency_.evict(id));
  write(id, one_, 4);
  EXPECT_EQ(residency_.state(id), ResidencyState::kResident);
  EXPECT_FALSE(transfers_.busy());
}

TEST_F(StreamResidencyTest, WhatIsUsedDoesNotLeave) {
  const StorageId id = *residency_.create(kGranule, one_);
  ASSERT_TRUE(residency_.use(id, one_, DeviceUse::kWrite));
  EXPECT_FALSE(residency_.evict(id));
  residency_.used(id, one_);
  EXPECT_TRUE(residency_.evict(id));
}

TEST_F(StreamResidencyTest, WithoutRoomOnTheHostNothingLeaves) {
  const StorageId large = *residency_.create(kGranule * 2, one_);
  ASSERT_NE(host_.allocate(kGranule), nullptr);
  EXPECT_FALSE(residency_.evict(large));
  EXPECT_EQ(residency_.state(large), ResidencyState::kResident);
}

//   one   create a | die a | create b     the same block, at once
//   two                     create c      waits for a's last use
TEST_F(StreamResidencyTest, ABlockIsReusedOnItsStreamAtOnceAndOnOthersAfterItsFence) {
  const StorageId a = *residency_.create(kGranule, one_);
  HeldStream held(device_, one_);
  write(a, one_, 1);
  residency_.die(a);
  const StorageId b = *residency_.create(kGranule, one_);
  EXPECT_EQ(pages_.created_handles(), 1U);
  write(b, one_, 2);
  ASSERT_TRUE(device_.synchronize_stream(two_).done()) << "nobody made it wait";
  residency_.die(b);
  const StorageId c = *residency_.create(kGranule, two_);
  EXPECT_EQ(pages_.created_handles(), 1U);
  EXPECT_FALSE(idle(two_));
  write(c, two_, 3);
  held.release();
  ASSERT_TRUE(device_.synchronize().done());
  EXPECT_EQ(read(c, two_), 3);
}

TEST_F(StreamResidencyTest, RoomComesFromTheDeadAndFromEvictions) {
  const StorageId a = *residency_.create(kGranule, one_);
  const StorageId b = *residency_.create(kGranule, one_);
  write(a, one_, 1);
  write(b, one_, 2);
  EXPECT_FALSE(residency_.create(kGranule, one_));
  EXPECT_FALSE(residency_.make_room()) << "something has to be evicted first";
  ASSERT_TRUE(residency_.evict(a));
  std::optional<StorageId> c;
  while (!(c = residency_.create(kGranule, one_))) ASSERT_TRUE(residency_.make_room());
  residency_.die(b);
  while (!residency_.prefetch(a)) ASSERT_TRUE(residency_.make_room());
  EXPECT_EQ(read(a, one_), 1);
}

//   prefetch: pages are opened   give_up: they leave, without a copy   use: they are still there
TEST_F(StreamResidencyTest, PagesOfAFetchGivenUpAreNotTakenForItsBytes) {
  const StorageId id = *residency_.create(kGranule, one_);
  write(id, one_, 5);
  ASSERT_TRUE(residency_.evict(id));
  settle(id);
  while (pages_.leaving() != Bytes{0}) residency_.advance();
  const DeviceAddress other = *pages_.carve(kGranule);  // has what was left in the pages changed
  ASSERT_TRUE(pages_.open(other, kGranule));
  ASSERT_TRUE(device_.fill(other, std::byte{6}, kGranule, one_).done());
  ASSERT_TRUE(device_.synchronize().done());
  pages_.close(other, {});
  pages_.settle();
  ASSERT_TRUE(residency_.prefetch(id));
  ASSERT_TRUE(residency_.give_up(id));
  EXPECT_EQ(pages_.leaving(), kGranule);
  EXPECT_EQ(read(id, two_), 5);
}

TEST_F(StreamResidencyTest, ARefusedCopyLosesNothing) {
  const StorageId id = *residency_.create(kGranule, one_);
  write(id, one_, 5);
  device_.fail(DeviceCall::kCopyOut, 1, ThreadDevice::kInvalid);
  ASSERT_TRUE(residency_.evict(id));
  residency_.advance();
  EXPECT_EQ(residency_.state(id), ResidencyState::kResident);
  ASSERT_TRUE(residency_.evict(id));
  residency_.advance();
  settle(id);
  while (pages_.leaving() != Bytes{0}) residency_.advance();
  device_.fail(DeviceCall::kCopyIn, 1, ThreadDevice::kInvalid);
  EXPECT_FALSE(residency_.use(id, one_, DeviceUse::kRead));
  EXPECT_EQ(residency_.state(id), ResidencyState::kOnHost);
  EXPECT_EQ(read(id, one_), 5);
}

}  // namespace
}  // namespace spillway::runtime
