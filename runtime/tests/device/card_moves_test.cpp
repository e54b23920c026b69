// SPDX-License-Identifier: Apache-2.0
// What the mover promises of storages on a card, beside the streams that use them.
#include <gmock/gmock.h>

#include <cstddef>
#include <mutex>
#include <optional>
#include <span>

#include "card_storages.hpp"
#include "device_fixture.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

class CardMovesTest : public DeviceFixture {
 protected:
  /// Fills the storage on a stream.
  void write(StorageRecord& storage, DeviceStream stream, int value) {
    const auto address = storages_.use(storage, stream, Access::kWrite);
    ASSERT_TRUE(address);
    ASSERT_TRUE(device_.fill(*address, std::byte(value), kGranule, stream).done());
    storages_.used(storage, stream);
  }
  /// Its first byte, when the work before is done.
  int read(StorageRecord& storage, DeviceStream stream) {
    std::byte seen{};
    const auto address = storages_.use(storage, stream, Access::kRead);
    EXPECT_TRUE(address);
    if (!address) return -1;
    const auto look = [&](std::span<std::byte* const> at) { seen = at[0][0]; };
    EXPECT_TRUE(device_.launch(stream, {{*address, kGranule}}, look).done());
    storages_.used(storage, stream);
    EXPECT_TRUE(device_.synchronize_stream(stream).done());
    return static_cast<int>(seen);
  }
  /// Until its eviction has ended.
  void settle(const StorageRecord& storage) {
    while (storages_.state(storage) == ResidencyState::kEvicting) storages_.advance();
  }

  /// Its copy out waits on the device for the write, where the stream is held.
  StorageRecord& write_and_evict() {
    StorageRecord& storage = *storages_.create(kGranule, one_);
    write(storage, one_, 3);
    EXPECT_TRUE(storages_.evict(storage));
    storages_.advance();
    return storage;
  }

  /// Once no work uses what it takes: it waits for none, so it may have to be asked for again.
  void prefetch(StorageRecord& storage) {
    bool begun = storages_.prefetch(storage);
    for (int again = 0; !begun && again < 3; ++again) {
      ASSERT_TRUE(device_.synchronize().done());
      while (leaving() != Bytes{0}) storages_.advance();
      begun = storages_.prefetch(storage);
    }
    ASSERT_TRUE(begun);
  }

  Bytes leaving() { return storages_.tier().coming(); }

  CardStorages storages_{clock_,
                         {.device = kGranule * 2, .host = kGranule * 2, .slab = kGranule * 2}};
  std::unique_lock<std::mutex> lock_{storages_.mutex()};
};

//   one    [held] write     evict: OUT waits on the device, the host goes on
TEST_F(CardMovesTest, AnEvictionHoldsNobodyUp) {
  HeldStream held(device_, one_);
  StorageRecord& storage = write_and_evict();
  storages_.advance();
  EXPECT_EQ(storages_.state(storage), ResidencyState::kEvicting);
  held.release();
  settle(storage);
  EXPECT_EQ(storages_.state(storage), ResidencyState::kOnHost);
  EXPECT_EQ(read(storage, two_), 3);
}

TEST_F(CardMovesTest, AReadMeanwhileHasTheBytesStay) {
  HeldStream held(device_, one_);
  StorageRecord& storage = write_and_evict();
  EXPECT_TRUE(storages_.use(storage, two_, Access::kRead));
  storages_.used(storage, two_);
  held.release();
  settle(storage);
  EXPECT_EQ(storages_.state(storage), ResidencyState::kResident);
  EXPECT_TRUE(storages_.evict(storage));
  EXPECT_EQ(storages_.state(storage), ResidencyState::kOnHost)
      << "its copy is there: it left cleanly";
}

TEST_F(CardMovesTest, AWriteMeanwhileSpoilsTheCopy) {
  HeldStream held(device_, one_);
  StorageRecord& storage = write_and_evict();
  write(storage, one_, 4);
  held.release();
  settle(storage);
  EXPECT_EQ(storages_.state(storage), ResidencyState::kResident);
  EXPECT_EQ(storages_.host().used(), Bytes{0}) << "nobody needs it";
  EXPECT_EQ(read(storage, one_), 4);
}

TEST_F(CardMovesTest, AnEvictionThatIsOnlyQueuedIsTakenBack) {
  StorageRecord& storage = *storages_.create(kGranule, one_);
  write(storage, one_, 3);
  ASSERT_TRUE(storages_.evict(storage));
  EXPECT_EQ(storages_.state(storage), ResidencyState::kEvicting);
  storages_.give_up(storage);
  EXPECT_EQ(storages_.state(storage), ResidencyState::kResident);
  EXPECT_EQ(storages_.mover().in_flight(), 0U);
  EXPECT_EQ(storages_.host().used(), Bytes{0});
}

TEST_F(CardMovesTest, WhatIsUsedDoesNotLeave) {
  StorageRecord& storage = *storages_.create(kGranule, one_);
  ASSERT_TRUE(storages_.use(storage, one_, Access::kWrite));
  EXPECT_FALSE(storages_.evict(storage));
  storages_.used(storage, one_);
  EXPECT_TRUE(storages_.evict(storage));
}

TEST_F(CardMovesTest, WithoutRoomOnTheHostNothingLeaves) {
  StorageRecord& large = *storages_.create(kGranule * 2, one_);
  ASSERT_NE(storages_.host().allocate(kGranule), nullptr);
  EXPECT_FALSE(storages_.evict(large));
  EXPECT_EQ(storages_.state(large), ResidencyState::kResident);
}

//   one   create a | die a | create b     the same block, at once
//   two                     create c      waits for a's last use
TEST_F(CardMovesTest, ABlockIsReusedOnItsStreamAtOnceAndOnOthersAfterItsFence) {
  StorageRecord& a = *storages_.create(kGranule, one_);
  HeldStream held(device_, one_);
  write(a, one_, 1);
  storages_.die(a);
  StorageRecord& b = *storages_.create(kGranule, one_);
  EXPECT_EQ(storages_.tier().pages().created_handles(), 1U);
  write(b, one_, 2);
  ASSERT_TRUE(device_.synchronize_stream(two_).done()) << "nobody made it wait";
  storages_.die(b);
  StorageRecord& c = *storages_.create(kGranule, two_);
  EXPECT_EQ(storages_.tier().pages().created_handles(), 1U);
  EXPECT_FALSE(idle(two_));
  write(c, two_, 3);
  held.release();
  ASSERT_TRUE(device_.synchronize().done());
  EXPECT_EQ(read(c, two_), 3);
}

TEST_F(CardMovesTest, RoomComesFromTheDeadAndFromEvictions) {
  StorageRecord& a = *storages_.create(kGranule, one_);
  StorageRecord& b = *storages_.create(kGranule, one_);
  write(a, one_, 1);
  write(b, one_, 2);
  EXPECT_FALSE(storages_.create(kGranule, one_));
  EXPECT_FALSE(storages_.make_room()) << "something has to be evicted first";
  ASSERT_TRUE(storages_.evict(a));
  while (storages_.create(kGranule, one_) == nullptr) ASSERT_TRUE(storages_.make_room());
  storages_.die(b);
  prefetch(a);
  EXPECT_EQ(read(a, one_), 1);
}

//   prefetch: pages are opened   give_up: they leave, without a copy   use: they are still there
TEST_F(CardMovesTest, PagesOfAFetchGivenUpAreNotTakenForItsBytes) {
  StorageRecord& storage = *storages_.create(kGranule, one_);
  write(storage, one_, 5);
  ASSERT_TRUE(storages_.evict(storage));
  settle(storage);
  while (leaving() != Bytes{0}) storages_.advance();
  for (StorageRecord* other :
       {storages_.create(kGranule, one_), storages_.create(kGranule, one_)}) {
    ASSERT_NE(other, nullptr);
    write(*other, one_, 6);  // has what was left in the pages changed
    storages_.die(*other);
  }
  prefetch(storage);
  storages_.give_up(storage);
  EXPECT_EQ(storages_.state(storage), ResidencyState::kOnHost);
  EXPECT_EQ(leaving(), kGranule);
  EXPECT_EQ(read(storage, two_), 5);
}

TEST_F(CardMovesTest, ARefusedCopyLosesNothing) {
  StorageRecord& storage = *storages_.create(kGranule, one_);
  write(storage, one_, 5);
  device_.fail(DeviceCall::kCopyOut, 1, ThreadDevice::kInvalid);
  ASSERT_TRUE(storages_.evict(storage));
  storages_.advance();
  EXPECT_EQ(storages_.state(storage), ResidencyState::kResident);
  ASSERT_TRUE(storages_.evict(storage));
  storages_.advance();
  settle(storage);
  while (leaving() != Bytes{0}) storages_.advance();
  device_.fail(DeviceCall::kCopyIn, 1, ThreadDevice::kInvalid);
  EXPECT_FALSE(storages_.use(storage, one_, Access::kRead));
  EXPECT_EQ(storages_.state(storage), ResidencyState::kOnHost);
  EXPECT_EQ(read(storage, one_), 5);
}

}  // namespace
}  // namespace spillway::runtime
