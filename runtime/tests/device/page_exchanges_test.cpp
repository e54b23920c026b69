// SPDX-License-Identifier: Apache-2.0
// A block is opened ahead where handles of other sizes are ready and the budget has no room: the
// thread gives them back first.
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "device_fixture.hpp"
#include "mapping_driver.hpp"
#include "spillway/runtime/device/vmm_pages.hpp"

namespace spillway::runtime {
namespace {

class PageExchangesTest : public DeviceFixture {
 public:
  ~PageExchangesTest() override {
    driver_.release_held();
    pages_.reset();
    EXPECT_EQ(device_.used(), Bytes{});
    EXPECT_EQ(budget_.used(), Bytes{});
  }

 protected:
  void make_ready(std::uint64_t granules) {
    const Bytes bytes = kGranule * granules;
    const DeviceAddress block = *pages_->carve(bytes);
    ASSERT_TRUE(pages_->open(block, bytes));
    ASSERT_TRUE(device_.fill(block, std::byte{1}, bytes, one_).done());
    const Fence fence = clock_.fence(clock_.slot_of(one_));
    clock_.wait(fence);
    pages_->close(block, fence);
    while (pages_->leaving() != Bytes{}) pages_->settle();
  }
  std::optional<DeviceAddress> open_ahead(std::uint64_t granules) {
    const DeviceAddress block = *pages_->carve(kGranule * granules);
    if (!pages_->open_ahead(block, kGranule * granules, Overbooking::kRefuse)) return std::nullopt;
    return block;
  }
  void wait_until_over(DeviceAddress block) {
    while (!pages_->opening(block)->over()) std::this_thread::yield();
  }
  /// The thread is at an opening until `release_held`.
  void keep_thread_busy() {
    driver_.hold();
    ASSERT_TRUE(open_ahead(1));
    driver_.wait_until_held();
  }

  MappingDriver driver_{device_};
  StreamClock clock_{driver_};
  MemoryBudget budget_{kGranule * 4};
  std::optional<VmmPages> pages_{std::in_place, clock_, budget_, kMiB, OpensAhead::kOnThread};
};

TEST_F(PageExchangesTest, AThreadGivesBackWhatMakesRoom) {
  make_ready(2);
  make_ready(1);
  const auto block = open_ahead(4);
  ASSERT_TRUE(block);
  EXPECT_EQ(budget_.used(), kGranule * 4);
  EXPECT_EQ(pages_->ready(), Bytes{});
  wait_until_over(*block);
  EXPECT_TRUE(pages_->opening(*block)->done());
  EXPECT_EQ(driver_.releases_of_program(), 0);
  EXPECT_EQ(device_.used(), kGranule * 4);
}

TEST_F(PageExchangesTest, WhatIsGivenBackBesidesIsPaidForUntilThen) {
  make_ready(4);
  driver_.hold();
  const auto block = open_ahead(3);
  ASSERT_TRUE(block);
  driver_.wait_until_held();
  pages_->settle();
  EXPECT_EQ(budget_.used(), kGranule * 4) << "or others had what the card still holds";
  driver_.release_held();
  wait_until_over(*block);
  pages_->settle();
  EXPECT_EQ(budget_.used(), kGranule * 3);
  EXPECT_EQ(device_.used(), kGranule * 3);
}

TEST_F(PageExchangesTest, TheLeastThatSufficesIsGivenBack) {
  make_ready(3);
  make_ready(1);
  driver_.hold();
  const DeviceAddress block = *pages_->carve(kGranule);
  budget_.set_limit(kGranule * 5);  // 1 is free
  ASSERT_TRUE(pages_->open_ahead(block, kGranule * 2, Overbooking::kRefuse));
  EXPECT_EQ(pages_->ready(), kGranule * 3);
  EXPECT_EQ(pages_->surplus(), Bytes{});
}

TEST_F(PageExchangesTest, WhereTheBudgetIsExceededAllOfThatIsMissing) {
  make_ready(1);
  ASSERT_TRUE(pages_->open(*pages_->carve(kGranule * 3), kGranule * 3));
  budget_.set_limit(kGranule * 3);
  EXPECT_FALSE(open_ahead(2));
}

TEST_F(PageExchangesTest, WhatIsNotBegunGivesNothingBack) {
  make_ready(3);
  keep_thread_busy();
  const auto block = open_ahead(2);
  ASSERT_TRUE(block);
  EXPECT_FALSE(pages_->end_opening(*block));
  EXPECT_EQ(pages_->ready(), kGranule * 3);
  EXPECT_EQ(budget_.used(), kGranule * 4);
  driver_.release_held();
  ASSERT_TRUE(pages_->open(*block, kGranule * 3));
}

TEST_F(PageExchangesTest, WhereMemoryIsNotThereNothingIsPaidFor) {
  make_ready(4);
  device_.fail(DeviceCall::kCreate, 1, ThreadDevice::kOutOfMemory);
  const auto block = open_ahead(3);
  ASSERT_TRUE(block);
  wait_until_over(*block);
  EXPECT_FALSE(pages_->end_opening(*block));
  pages_->settle();
  EXPECT_EQ(budget_.used(), Bytes{});
  EXPECT_EQ(device_.used(), Bytes{});
}

TEST_F(PageExchangesTest, WhereReadyHandlesDoNotSufficeItIsRefused) {
  make_ready(1);
  ASSERT_TRUE(pages_->open(*pages_->carve(kGranule * 2), kGranule * 2));
  EXPECT_FALSE(open_ahead(3));
  EXPECT_EQ(pages_->ready(), kGranule) << "for the next of its size";
}

TEST_F(PageExchangesTest, AnExchangeThatNobodyWaitedForEndsWithTheRest) {
  make_ready(3);
  keep_thread_busy();
  EXPECT_TRUE(open_ahead(2));
}

}  // namespace
}  // namespace spillway::runtime
