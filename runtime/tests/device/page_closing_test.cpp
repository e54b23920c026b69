// SPDX-License-Identifier: Apache-2.0
// Blocks that nobody uses any more are unmapped on another thread: who may need them meanwhile.
#include <gmock/gmock.h>

#include <optional>

#include "device_fixture.hpp"
#include "mapping_driver.hpp"
#include "spillway/runtime/device/vmm_pages.hpp"

namespace spillway::runtime {
namespace {

class PageClosingTest : public DeviceFixture {
 public:
  ~PageClosingTest() override {
    driver_.release_held();
    pages_.reset();
    EXPECT_EQ(device_.used(), lost_);
    EXPECT_EQ(budget_.used(), unpaid_);
  }

 protected:
  DeviceAddress opened() {
    const DeviceAddress block = *pages_->carve(kGranule);
    EXPECT_TRUE(pages_->open(block, kGranule));
    return block;
  }
  /// Its last use is over.
  void close(DeviceAddress block) {
    EXPECT_TRUE(device_.fill(block, std::byte{1}, kGranule, one_).done());
    const Fence fence = clock_.fence(clock_.slot_of(one_));
    clock_.wait(fence);
    pages_->close(block, fence);
  }
  /// The thread is at an opening until `release_held`.
  void keep_thread_busy() {
    driver_.hold();
    ASSERT_TRUE(pages_->open_ahead(*pages_->carve(kGranule), kGranule, Overbooking::kRefuse));
    driver_.wait_until_held();
  }
  void expect_accounts() {
    EXPECT_EQ(budget_.used(), pages_->mapped() + pages_->leaving() + pages_->ready());
  }

  MappingDriver driver_{device_};
  StreamClock clock_{driver_};
  MemoryBudget budget_{kGranule * 8};
  std::optional<VmmPages> pages_{std::in_place, clock_, budget_, kMiB, OpensAhead::kOnThread};
  Bytes lost_{};    // which the driver has not taken back
  Bytes unpaid_{};  // and the budget has not, either
};

TEST_F(PageClosingTest, AThreadUnmapsWhatNobodyUses) {
  close(opened());
  EXPECT_EQ(pages_->leaving(), kGranule);
  driver_.wait_until_others_unmapped(1);
  EXPECT_EQ(pages_->settle(), kGranule);
  EXPECT_EQ(driver_.unmaps_of_program(), 0);
  EXPECT_EQ(pages_->ready(), kGranule);
  EXPECT_EQ(pages_->settle(), Bytes{});
  expect_accounts();
}

TEST_F(PageClosingTest, WhatIsStillUsedIsLeftToTheThreadWhenThatIsOver) {
  const DeviceAddress block = opened();
  HeldStream held(device_, one_);
  pages_->close(block, clock_.fence(clock_.slot_of(one_)));
  EXPECT_EQ(pages_->settle(), Bytes{});
  held.release();
  ASSERT_TRUE(device_.synchronize_stream(one_).done());
  pages_->look();
  driver_.wait_until_others_unmapped(1);
  EXPECT_EQ(driver_.unmaps_of_program(), 0);
  EXPECT_EQ(pages_->settle(), kGranule);
  expect_accounts();
}

// Which is what the thread has not begun to unmap by then: any number of the fifty.
TEST_F(PageClosingTest, WhatIsRecalledAnotherCardReachesToo) {
  for (int i = 0; i < 50; ++i) {
    const DeviceAddress block = opened();
    const DeviceAddress other = opened();
    close(other);
    close(block);
    pages_->allow_peer(1);
    if (pages_->recall(block)) {
      EXPECT_TRUE(device_.is_shared(block, kGranule));
      close(block);
    }
    while (pages_->leaving() != Bytes{}) pages_->settle();
    expect_accounts();
    pages_->trim(pages_->ready());
    device_.forget_peer(1);
  }
}

TEST_F(PageClosingTest, WhoNeedsPagesDoesNotWaitForTheThread) {
  const DeviceAddress first = opened();
  const DeviceAddress second = opened();
  keep_thread_busy();
  close(first);
  close(second);
  EXPECT_EQ(pages_->settle(), kGranule) << "one is enough to go on with";
  EXPECT_EQ(driver_.unmaps_of_program(), 1);
  EXPECT_EQ(pages_->leaving(), kGranule);
  EXPECT_EQ(pages_->settle(), kGranule);
  EXPECT_EQ(driver_.unmaps_of_program(), 2);
  expect_accounts();
}

TEST_F(PageClosingTest, ABlockIsRecalledBeforeTheThreadComesToIt) {
  const DeviceAddress block = opened();
  keep_thread_busy();
  close(block);
  EXPECT_TRUE(pages_->recall(block));
  driver_.release_held();
  pages_->stop_thread();
  EXPECT_EQ(driver_.unmaps_of_program(), 0);
  EXPECT_TRUE(device_.fill(block, std::byte{2}, kGranule, one_).done());
  EXPECT_TRUE(device_.synchronize_stream(one_).done());
  expect_accounts();
}

TEST_F(PageClosingTest, OneThatTheThreadHasUnmappedIsOpenedAnew) {
  const DeviceAddress block = opened();
  close(block);
  pages_->stop_thread();
  EXPECT_FALSE(pages_->recall(block));
  EXPECT_EQ(pages_->ready(), kGranule);
  ASSERT_TRUE(pages_->open(block, kGranule));
  close(block);
  pages_->stop_thread();
  EXPECT_FALSE(pages_->recall(block)) << "nor is an older closing found";
  expect_accounts();
}

TEST_F(PageClosingTest, WhatTheThreadCouldNotUnmapIsToldToWhoSettles) {
  const DeviceAddress block = opened();
  device_.fail(DeviceCall::kUnmap, 1, ThreadDevice::kInvalid);
  close(block);
  pages_->stop_thread();
  EXPECT_THROW(pages_->settle(), DeviceFailure);
  EXPECT_EQ(pages_->leaving(), Bytes{}) << "nobody waits for it again";
  lost_ = unpaid_ = kGranule;
}

// Blocks are closed where a copy that ended in vain is told of, which nobody may throw into.
TEST_F(PageClosingTest, ALostDeviceIsToldOfByWhoSettlesAndNotByWhoCloses) {
  const DeviceAddress block = opened();
  EXPECT_TRUE(device_.fill(block, std::byte{1}, kGranule, one_).done());
  const Fence fence = clock_.fence(clock_.slot_of(one_));
  device_.lose();
  EXPECT_NO_THROW(pages_->close(block, fence));
  EXPECT_EQ(pages_->leaving(), kGranule);
  EXPECT_THROW(pages_->settle(), DeviceFailure);
  lost_ = device_.used();  // with all that is on it
}

TEST_F(PageClosingTest, AThreadThatCannotMakeCallsLeavesItToOthers) {
  driver_.thread_enters = false;
  close(opened());
  pages_->stop_thread();
  EXPECT_EQ(pages_->settle(), kGranule);
  EXPECT_EQ(driver_.unmaps_of_program(), 1);
}

TEST_F(PageClosingTest, WhatIsQueuedAtTheEndIsGivenBack) {
  const DeviceAddress block = opened();
  const DeviceAddress closed = opened();
  close(closed);
  driver_.wait_until_others_unmapped(1);
  keep_thread_busy();
  close(block);
  driver_.release_held();
}

}  // namespace
}  // namespace spillway::runtime
