// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/vmm_pages.hpp"

#include <gmock/gmock.h>

#include <optional>

#include "device_fixture.hpp"
#include "spillway/base/error.hpp"
#include "spillway/testing/device/forwarding_driver.hpp"

namespace spillway::runtime {
namespace {

using ::testing::HasSubstr;

class VmmPagesTest : public DeviceFixture {
 protected:
  static constexpr Bytes kLimit = kGranule * 8;

  /// Enqueues a write of the whole block.
  DeviceStatus touch(DeviceAddress block, Bytes bytes) {
    return device_.fill(block, std::byte{1}, bytes, one_);
  }
  void expect_accounts() {
    EXPECT_EQ(budget_.used(), pages_->mapped() + pages_->leaving() + pages_->ready());
    EXPECT_EQ(device_.used(), budget_.used());
    EXPECT_LE(budget_.used(), budget_.limit());
  }
  Fence now() { return clock_.fence(clock_.slot_of(one_)); }

  MemoryBudget budget_{kLimit};
  std::optional<VmmPages> pages_{std::in_place, clock_, budget_, kMiB};
};

/// Counts how often the device is asked whether an event has passed.
class CountingDriver final : public spillway::testing::ForwardingDriver {
 public:
  using ForwardingDriver::ForwardingDriver;
  Status query(Event event) override {
    ++queries;
    return ForwardingDriver::query(event);
  }
  int queries = 0;
};

TEST_F(VmmPagesTest, AskingForManyPagesAsksTheDeviceOnceForEachStream) {
  CountingDriver driver(device_);
  StreamClock clock(driver);
  MemoryBudget budget(kLimit);
  VmmPages pages(clock, budget, kMiB);
  const StreamSlot slots[] = {clock.slot_of(one_), clock.slot_of(two_)};
  HeldStream first(device_, one_);
  HeldStream second(device_, two_);
  for (int i = 0; i < 8; ++i) {
    const DeviceAddress block = *pages.carve(kGranule);
    ASSERT_TRUE(pages.open(block, kGranule));
    pages.close(block, clock.fence(slots[i % 2]));
  }
  driver.queries = 0;
  EXPECT_EQ(pages.settle(), Bytes{0});
  EXPECT_EQ(driver.queries, 2);
  first.release();
  ASSERT_TRUE(device_.synchronize_stream(one_).done());
  EXPECT_EQ(pages.settle(), kGranule * 4) << "those of the stream that went on, of each";
  second.release();
  ASSERT_TRUE(device_.synchronize_stream(two_).done());
  EXPECT_EQ(pages.settle(), kGranule * 4);
}

TEST_F(VmmPagesTest, ABlockKeepsItsAddressesAndAHandleServesTheNext) {
  const DeviceAddress first = *pages_->carve({5000});
  const DeviceAddress second = *pages_->carve({5000});
  EXPECT_EQ(pages_->pages_for({5000}), kGranule * 2);
  ASSERT_TRUE(pages_->open(first, {5000}));
  EXPECT_TRUE(touch(first, kGranule * 2).done());
  expect_accounts();
  pages_->close(first, now());
  EXPECT_TRUE(pages_->settle_one());
  EXPECT_EQ(pages_->ready(), kGranule * 2);
  EXPECT_FALSE(touch(first, kGranule).done()) << "no pages behind it";
  ASSERT_TRUE(pages_->open(second, {8192}));
  EXPECT_EQ(pages_->created_handles(), 1U);
  EXPECT_EQ(pages_->recycled_handles(), 1U);
  ASSERT_TRUE(pages_->open(first, {5000}));
  EXPECT_TRUE(touch(first, kGranule * 2).done());
  expect_accounts();
}

//   one    [held] write of the block
//   host   close(fence)   settle: nothing may leave   release   settle_one: now it does
TEST_F(VmmPagesTest, PagesStayUntilTheHostHasSeenTheirUsersEnd) {
  const DeviceAddress block = *pages_->carve(kGranule);
  ASSERT_TRUE(pages_->open(block, kGranule));
  HeldStream held(device_, one_);
  ASSERT_TRUE(touch(block, kGranule).done());
  pages_->close(block, now());
  EXPECT_EQ(pages_->settle(), Bytes{0});
  EXPECT_EQ(pages_->leaving(), kGranule);
  expect_accounts();
  held.release();
  EXPECT_TRUE(pages_->settle_one());
  EXPECT_FALSE(pages_->settle_one());
  EXPECT_EQ(pages_->ready(), kGranule);
}

TEST_F(VmmPagesTest, PagesThatHaveNotLeftAreRecalledWithTheirFence) {
  const DeviceAddress block = *pages_->carve(kGranule);
  ASSERT_TRUE(pages_->open(block, kGranule));
  HeldStream held(device_, one_);
  const Fence fence = now();
  pages_->close(block, fence);
  EXPECT_EQ(pages_->recall(block), fence);
  EXPECT_EQ(pages_->mapped(), kGranule);
  EXPECT_TRUE(touch(block, kGranule).done());
  EXPECT_EQ(pages_->recall(block), std::nullopt) << "it is not leaving";
  held.release();
}

TEST_F(VmmPagesTest, AnotherCardReachesWhatIsMappedAndWhatWillBe) {
  pages_.emplace(clock_, budget_, kMiB, OpensAhead::kOnCall);
  const DeviceAddress mapped = *pages_->carve(kGranule);
  const DeviceAddress leaving = *pages_->carve(kGranule);
  const DeviceAddress opening = *pages_->carve(kGranule);
  const DeviceAddress later = *pages_->carve(kGranule);
  ASSERT_TRUE(pages_->open(mapped, kGranule));
  ASSERT_TRUE(pages_->open(leaving, kGranule));
  HeldStream held(device_, one_);
  pages_->close(leaving, now());
  ASSERT_TRUE(pages_->open_ahead(opening, kGranule, Overbooking::kRefuse));
  EXPECT_FALSE(device_.is_shared(mapped, kGranule));

  pages_->allow_peer(1);
  ASSERT_TRUE(pages_->recall(leaving).has_value());
  ASSERT_TRUE(pages_->open(later, kGranule));
  for (const DeviceAddress block : {mapped, leaving, opening, later}) {
    EXPECT_TRUE(device_.is_shared(block, kGranule));
  }
  held.release();
}

TEST_F(VmmPagesTest, ReadyHandlesMakeRoomForAnotherCardsAccess) {
  const DeviceAddress mapped = *pages_->carve(kGranule);
  const DeviceAddress freed = *pages_->carve(kGranule);
  ASSERT_TRUE(pages_->open(mapped, kGranule));
  ASSERT_TRUE(pages_->open(freed, kGranule));
  pages_->close(freed, {});
  pages_->settle();
  ASSERT_EQ(pages_->ready(), kGranule);
  device_.fail(DeviceCall::kAllowAccess, 1, ThreadDevice::kOutOfMemory);
  pages_->allow_peer(1);
  EXPECT_TRUE(device_.is_shared(mapped, kGranule));
  EXPECT_EQ(pages_->ready(), Bytes{});
  expect_accounts();
}

TEST_F(VmmPagesTest, WhereAnotherCardIsRefusedBlocksAreOpenedWithoutIt) {
  const DeviceAddress mapped = *pages_->carve(kGranule);
  const DeviceAddress later = *pages_->carve(kGranule);
  ASSERT_TRUE(pages_->open(mapped, kGranule));
  device_.fail(DeviceCall::kAllowAccess, 1, ThreadDevice::kInvalid);
  EXPECT_THROW(pages_->allow_peer(1), DeviceFailure);
  EXPECT_TRUE(pages_->open(later, kGranule));
  EXPECT_FALSE(device_.is_shared(later, kGranule));
}

TEST_F(VmmPagesTest, ReadyHandlesOfOtherSizesMakeRoomWithinTheBudget) {
  const DeviceAddress small = *pages_->carve(kGranule * 2);
  const DeviceAddress large = *pages_->carve(kGranule * 7);
  ASSERT_TRUE(pages_->open(small, kGranule * 2));
  EXPECT_FALSE(pages_->open(large, kGranule * 7)) << "2 + 7 granules of 8";
  expect_accounts();
  pages_->close(small, {});
  pages_->settle();
  EXPECT_TRUE(pages_->open(large, kGranule * 7));
  EXPECT_EQ(pages_->ready(), Bytes{0});
  expect_accounts();
}

TEST_F(VmmPagesTest, ACardThatOthersFilledIsNoError) {
  PagesHandle others{};
  ASSERT_TRUE(device_.create(kMiB - kGranule, others).done());
  const DeviceAddress block = *pages_->carve(kGranule * 2);
  EXPECT_FALSE(pages_->open(block, kGranule * 2));
  EXPECT_EQ(budget_.used(), Bytes{0});
  ASSERT_TRUE(device_.release(others).done());
  EXPECT_TRUE(pages_->open(block, kGranule * 2));
}

TEST_F(VmmPagesTest, AHandleThatCannotBeMappedIsGivenBack) {
  const DeviceAddress block = *pages_->carve(kGranule);
  for (const DeviceCall call : {DeviceCall::kMap, DeviceCall::kAllowAccess}) {
    device_.fail(call, 1, ThreadDevice::kOutOfMemory);
    EXPECT_FALSE(pages_->open(block, kGranule));
    device_.fail(call, 1, ThreadDevice::kInvalid);
    EXPECT_THROW(static_cast<void>(pages_->open(block, kGranule)), DeviceFailure);
    expect_accounts();
    EXPECT_EQ(budget_.used(), Bytes{0});
  }
  EXPECT_TRUE(pages_->open(block, kGranule));
}

// Who waits until pages have left would wait for ever.
TEST_F(VmmPagesTest, PagesThatCannotBeUnmappedAreNotAwaited) {
  const DeviceAddress block = *pages_->carve(kGranule);
  ASSERT_TRUE(pages_->open(block, kGranule));
  pages_->close(block, {});
  device_.fail(DeviceCall::kUnmap, 1, ThreadDevice::kInvalid);
  EXPECT_THROW(pages_->settle(), DeviceFailure);
  EXPECT_EQ(pages_->leaving(), Bytes{0});
  EXPECT_EQ(budget_.used(), kGranule) << "the card still holds them";
}

TEST_F(VmmPagesTest, AddressesEnd) {
  EXPECT_TRUE(pages_->carve(kMiB - kGranule));
  EXPECT_FALSE(pages_->carve(kGranule * 2));
  EXPECT_TRUE(pages_->carve(kGranule));
}

TEST_F(VmmPagesTest, EverythingIsGivenBackInTheEnd) {
  for (const std::uint64_t granules : {1U, 2U, 3U}) {
    const DeviceAddress block = *pages_->carve(kGranule * granules);
    ASSERT_TRUE(pages_->open(block, kGranule * granules));
    if (granules != 1) pages_->close(block, now());
    if (granules == 2) pages_->settle_one();
  }
  HeldStream held(device_, two_);
  EXPECT_EQ(device_.used(), kGranule * 6);
  held.release();
  pages_.reset();
  EXPECT_EQ(device_.used(), Bytes{0});
  EXPECT_EQ(budget_.used(), Bytes{0});
}

TEST_F(VmmPagesTest, SaysWhyItCannotBeHad) {
  const auto refusal = [this](ThreadDevice& device) -> std::string {
    StreamClock clock(device);
    try {
      const VmmPages pages(clock, budget_, kGiB * 4);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  ThreadDevice without({.granule = 0});
  EXPECT_THAT(refusal(without),
              AllOf(HasSubstr("cannot map memory"), HasSubstr("SPILLWAY_BUDGET=cpu:8GiB")));
  EXPECT_THAT(refusal(device_), HasSubstr("no 4 GiB of addresses: out of memory (2)"));
}

}  // namespace
}  // namespace spillway::runtime
