// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/device_transfers.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device_fixture.hpp"
#include "spillway/runtime/transfer/spool.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"

namespace spillway::runtime {
namespace {

using ::testing::HasSubstr;

class DeviceTransfersTest : public DeviceFixture {
 protected:
  static constexpr Bytes kSize = kGranule * 5;
  static constexpr Bytes kChunk = kGranule * 2;

  DeviceTransfersTest() { begin(Looking::kThread); }

  void begin(Looking looking) {
    transfers_.emplace(clock_, tier_, host_, chunks_, kChunk, std::make_unique<TransferPool>(2),
                       looking);
  }
  DeviceBlock& make(int value) {
    const NumberedStream stream = tier_.number(one_);
    DeviceBlock& block = *tier_.allocate(kSize, Overbooking::kRefuse, stream).block;
    tier_.begin_use(block, stream);
    const DeviceAddress address{reinterpret_cast<std::uint64_t>(block.address)};
    EXPECT_TRUE(device_.fill(address, std::byte(value), kSize, one_).done());
    tier_.end_use(block, stream);
    return block;
  }
  /// The last of its bytes, after all that is in streams.
  int last_byte(DeviceBlock& block) {
    std::vector<std::byte> bytes(kSize.count);
    tier_.read_back(block, kSize, bytes.data());
    return static_cast<int>(bytes.back());
  }
  static TransferDone into(std::promise<TransferResult>& promise) {
    return [&promise](const TransferResult& result) { promise.set_value(result); };
  }
  std::optional<TransferId> copy_out(DeviceBlock& block, std::byte* host,
                                     std::promise<TransferResult>& over) {
    return transfers_->copy({.from = block.address, .to = host, .bytes = kSize}, into(over));
  }
  std::optional<TransferId> copy_in(DeviceBlock& block, const std::byte* host, bool awaited,
                                    std::promise<TransferResult>& over) {
    return transfers_->copy({.from = host, .to = block.address, .bytes = kSize, .awaited = awaited},
                            into(over));
  }
  TransferId pass(DeviceBlock& block, Direction direction, std::promise<TransferResult>& over) {
    return transfers_->submit({.direction = direction,
                               .memory = block.address,
                               .extent = extent_,
                               .descriptor = spool_.descriptor(),
                               .length = kSize.count},
                              into(over));
  }

  /// A block whose bytes are on the disk, and that waits to be opened.
  DeviceBlock& make_unopened(int value) {
    DeviceBlock& block = make(value);
    std::promise<TransferResult> left;
    pass(block, Direction::kOut, left);
    EXPECT_EQ(left.get_future().get().error, 0);
    tier_.evict(block);
    while (tier_.coming() != Bytes{0}) tier_.settle();
    EXPECT_NE(tier_.restore_ahead(block, Overbooking::kRefuse).pointer, nullptr);
    return block;
  }

  StreamTier tier_{clock_, kGranule * 20, kMiB, OpensAhead::kOnCall};
  PinnedHostMemory host_{clock_, kGranule * 16, kGranule * 8};
  PinnedHostMemory chunks_{clock_, kChunk * 4, kChunk * 4};
  Spool spool_{{.directory = ::testing::TempDir(), .budget = kMiB * 16, .warn = {}}};
  const Extent extent_ = *spool_.allocate(kSize);
  std::optional<DeviceTransfers> transfers_;
};

TEST_F(DeviceTransfersTest, BytesReachTheHostAndComeBackIntoAnotherBlock) {
  std::byte* const host = host_.allocate(kSize);
  std::promise<TransferResult> left;
  std::promise<TransferResult> came;
  ASSERT_TRUE(copy_out(make(3), host, left));
  EXPECT_EQ(left.get_future().get().error, 0);
  EXPECT_EQ(host[kSize.count - 1], std::byte{3});
  DeviceBlock& other = make(4);
  ASSERT_TRUE(copy_in(other, host, false, came));
  EXPECT_EQ(came.get_future().get().error, 0);
  EXPECT_EQ(last_byte(other), 3);
}

TEST_F(DeviceTransfersTest, BytesReachTheDiskThroughChunksAndComeBack) {
  std::promise<TransferResult> left;
  std::promise<TransferResult> came;
  pass(make(5), Direction::kOut, left);
  EXPECT_EQ(left.get_future().get().error, 0);
  DeviceBlock& other = make(6);
  pass(other, Direction::kIn, came);
  EXPECT_EQ(came.get_future().get().error, 0);
  EXPECT_EQ(last_byte(other), 5);
  EXPECT_EQ(transfers_->bytes_written(), kSize);
  EXPECT_EQ(transfers_->bytes_read(), kSize);
}

TEST_F(DeviceTransfersTest, HostMemoryGoesToTheDiskAsItIs) {
  std::byte* const host = host_.allocate(kSize);
  std::fill_n(host, kSize.count, std::byte{7});
  std::promise<TransferResult> left;
  transfers_->submit({.direction = Direction::kOut,
                      .memory = host,
                      .extent = extent_,
                      .descriptor = spool_.descriptor(),
                      .length = kSize.count},
                     into(left));
  EXPECT_EQ(left.get_future().get().error, 0);
  std::promise<TransferResult> came;
  DeviceBlock& block = make(8);
  pass(block, Direction::kIn, came);
  EXPECT_EQ(came.get_future().get().error, 0);
  EXPECT_EQ(last_byte(block), 7);
}

//   one   [held] write        OUT   waits for it        host   goes on
TEST_F(DeviceTransfersTest, ACopyOutIsOverWhenTheHostHasSeenItsEnd) {
  std::byte* const host = host_.allocate(kSize);
  HeldStream held(device_, one_);
  std::promise<TransferResult> left;
  ASSERT_TRUE(copy_out(make(3), host, left));
  std::future<TransferResult> result = left.get_future();
  EXPECT_EQ(result.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  held.release();
  EXPECT_EQ(result.get().error, 0);
  EXPECT_EQ(host[0], std::byte{3});
}

//   one   [held] use of the block       copy   issued, and over       host memory   not given back
TEST_F(DeviceTransfersTest, AnAwaitedCopyInIsOverWhenItIsIssued) {
  std::byte* const host = host_.allocate(kSize);
  std::fill_n(host, kSize.count, std::byte{9});
  HeldStream held(device_, one_);
  DeviceBlock& block = make(1);
  std::promise<TransferResult> never;
  EXPECT_FALSE(copy_in(block, host, true, never)) << "it waits for nobody";
  static_cast<void>(host_.give_back(host, kSize));
  host_.settle();
  EXPECT_EQ(host_.used(), kSize) << "its copy still reads it";
  tier_.begin_use(block, tier_.number(two_));
  EXPECT_FALSE(idle(two_)) << "it would read too early";
  held.release();
  EXPECT_EQ(last_byte(block), 9);
  host_.settle();
  EXPECT_EQ(host_.used(), Bytes{0});
}

TEST_F(DeviceTransfersTest, WhatIsQueuedIsHurriedOrTakenBack) {
  begin(Looking::kCaller);
  std::byte* const host = host_.allocate(kSize);
  std::fill_n(host, kSize.count, std::byte{9});
  DeviceBlock& block = make(1);
  std::promise<TransferResult> never;
  const auto hurried = copy_in(block, host, false, never);
  EXPECT_TRUE(transfers_->hurry(*hurried)) << "it is over thereby";
  EXPECT_FALSE(transfers_->hurry(*hurried));
  EXPECT_FALSE(transfers_->cancel(*hurried));
  EXPECT_EQ(last_byte(block), 9);
  const auto queued = copy_out(block, host, never);
  EXPECT_TRUE(transfers_->cancel(*queued));
  EXPECT_FALSE(transfers_->cancel(*queued));
  while (transfers_->look()) {
  }
  EXPECT_EQ(never.get_future().wait_for(std::chrono::seconds(0)), std::future_status::timeout);
}

// Who hears of a refusal by no return value has to be told of it.
TEST_F(DeviceTransfersTest, AHurriedCopyThatTheDriverRefusesIsToldOf) {
  begin(Looking::kCaller);
  std::byte* const host = host_.allocate(kSize);
  std::promise<TransferResult> over;
  const auto id = copy_in(make(1), host, false, over);
  device_.fail(DeviceCall::kCopyIn, 1, ThreadDevice::kInvalid);
  EXPECT_FALSE(transfers_->hurry(*id));
  transfers_->look();
  const TransferResult result = over.get_future().get();
  EXPECT_EQ(result.error, EIO);
  EXPECT_THAT(result.said, HasSubstr("refused the copy"));
}

// Behind work that is held, so its stream has to wait, and the driver refuses that.
TEST_F(DeviceTransfersTest, AHurriedCopyThatFailsIsToldOfToo) {
  begin(Looking::kCaller);
  std::byte* const host = host_.allocate(kSize);
  HeldStream held(device_, one_);
  std::promise<TransferResult> over;
  const auto id = copy_in(make(1), host, false, over);
  device_.fail(DeviceCall::kStreamWait, 1, ThreadDevice::kInvalid);
  EXPECT_THROW(transfers_->hurry(*id), DeviceFailure);
  EXPECT_FALSE(transfers_->hurry(*id)) << "it is over";
  transfers_->look();
  const auto told = over.get_future();
  ASSERT_EQ(told.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  held.release();
  transfers_->drain();
}

// Of one who is told of a copy's end, be it that the card is lost by then.
TEST_F(DeviceTransfersTest, WhoIsToldAndFailsKeepsNoOtherFromBeingTold) {
  std::byte* const hosts[] = {host_.allocate(kSize), host_.allocate(kSize)};  // more is not there
  for (const bool lost : {false, true}) {
    begin(Looking::kThread);
    HeldStream held(device_, one_);
    std::promise<TransferResult> other;
    transfers_->copy({.from = make(3).address, .to = hosts[0], .bytes = kSize},
                     [](const TransferResult&) { throw UserError("no thread can be started"); });
    ASSERT_TRUE(copy_out(make(4), hosts[1], other));
    if (lost) device_.lose();
    held.release();
    EXPECT_EQ(other.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    transfers_->drain();
  }
}

TEST_F(DeviceTransfersTest, WhoWondersIsToldWhichStreamHoldsACopyUp) {
  begin(Looking::kCaller);
  HeldStream held(device_, one_);
  std::promise<TransferResult> left;
  ASSERT_TRUE(copy_out(make(1), host_.allocate(kSize), left));
  transfers_->look();
  EXPECT_THAT(transfers_->awaited(), HasSubstr(fmt::format("stream {:#x} is before tick",
                                                           static_cast<std::uintptr_t>(one_))));
  held.release();
  transfers_->drain();
}

TEST_F(DeviceTransfersTest, AChunkThatTheDriverRefusesIsNoErrorOfTheDisk) {
  std::promise<TransferResult> left;
  device_.fail(DeviceCall::kCopyOut, 2, ThreadDevice::kInvalid);
  pass(make(5), Direction::kOut, left);
  const TransferResult result = left.get_future().get();
  EXPECT_EQ(result.error, EIO);
  EXPECT_THAT(result.said, HasSubstr("the device's driver refused the copy: invalid value (1)"));
}

TEST_F(DeviceTransfersTest, ALostDeviceEndsAllThatIsUnderWayInItsWords) {
  std::byte* const host = host_.allocate(kSize);
  HeldStream held(device_, one_);
  DeviceBlock& block = make(3);
  std::promise<TransferResult> left;
  std::promise<TransferResult> passed;
  ASSERT_TRUE(copy_out(block, host, left));
  pass(make(4), Direction::kOut, passed);
  device_.lose();
  held.release();
  for (std::promise<TransferResult>* one : {&left, &passed}) {
    const TransferResult result = one->get_future().get();
    EXPECT_EQ(result.error, EIO);
    EXPECT_THAT(result.said, HasSubstr("failed while"));
  }
  EXPECT_THAT(transfers_->awaited(), HasSubstr("failed while"));
  std::promise<TransferResult> never;
  EXPECT_THROW(copy_out(block, host, never), UserError);
  transfers_->drain();
}

TEST_F(DeviceTransfersTest, BytesFromTheDiskWaitForTheirBlockToBeOpened) {
  DeviceBlock& block = make_unopened(5);
  std::promise<TransferResult> came;
  pass(block, Direction::kIn, came);
  std::future<TransferResult> result = came.get_future();
  EXPECT_EQ(result.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  ASSERT_TRUE(tier_.open_next());
  EXPECT_EQ(result.get().error, 0);
  EXPECT_EQ(last_byte(block), 5);
}

// There are four chunks, of which two such passages would hold all.
TEST_F(DeviceTransfersTest, WhoWaitsForABlockToBeOpenedKeepsNoChunkFromOthers) {
  DeviceBlock* const blocks[] = {&make_unopened(5), &make_unopened(6)};
  std::promise<TransferResult> came[2];
  for (int i = 0; i < 2; ++i) pass(*blocks[i], Direction::kIn, came[i]);
  std::promise<TransferResult> left;
  pass(make(7), Direction::kOut, left);
  std::future<TransferResult> result = left.get_future();
  EXPECT_EQ(result.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  while (tier_.open_next()) {
  }
  EXPECT_EQ(result.get().error, 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(came[i].get_future().get().error, 0);
    EXPECT_EQ(last_byte(*blocks[i]), 7) << "what lies there now";
  }
}

TEST_F(DeviceTransfersTest, AHurriedPassageOpensItsBlock) {
  DeviceBlock& block = make_unopened(5);
  std::promise<TransferResult> came;
  transfers_->hurry(pass(block, Direction::kIn, came));
  EXPECT_EQ(came.get_future().get().error, 0);
  EXPECT_EQ(last_byte(block), 5);
}

TEST_F(DeviceTransfersTest, ACopyIntoABlockThatCannotBeOpenedIsUnplaced) {
  std::byte* const host = host_.allocate(kSize);
  for (const bool awaited : {false, true}) {
    DeviceBlock& block = make_unopened(5);
    device_.fail(DeviceCall::kMap, 1, ThreadDevice::kOutOfMemory);
    std::promise<TransferResult> came;
    ASSERT_TRUE(copy_in(block, host, awaited, came)) << "it is told of";
    tier_.open_next();
    const TransferResult result = came.get_future().get();
    EXPECT_TRUE(result.unplaced);
    EXPECT_THAT(result.said, HasSubstr("refused the memory"));
    tier_.evict(block);
    EXPECT_EQ(tier_.budget().used(), device_.used());
    EXPECT_NE(tier_.restore(block, Overbooking::kRefuse).pointer, nullptr);
  }
}

TEST_F(DeviceTransfersTest, APassageIntoABlockThatCannotBeOpenedIsUnplaced) {
  DeviceBlock& block = make_unopened(5);
  device_.fail(DeviceCall::kMap, 1, ThreadDevice::kOutOfMemory);
  std::promise<TransferResult> came;
  pass(block, Direction::kIn, came);
  tier_.open_next();
  EXPECT_TRUE(came.get_future().get().unplaced);
}

TEST_F(DeviceTransfersTest, DrainingWaitsForCopiesOfAllKinds) {
  std::byte* const host = host_.allocate(kSize);
  std::promise<TransferResult> left;
  std::promise<TransferResult> passed;
  copy_out(make(3), host, left);
  pass(make(4), Direction::kOut, passed);
  transfers_->drain();
  EXPECT_EQ(left.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(passed.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

}  // namespace
}  // namespace spillway::runtime
