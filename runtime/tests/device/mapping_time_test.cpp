// SPDX-License-Identifier: Apache-2.0
// What is counted as time that mapping a card's memory held up the program, and what is not.
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "device_fixture.hpp"
#include "mapping_driver.hpp"
#include "spillway/runtime/device/vmm_pages.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"

namespace spillway::runtime {
namespace {

constexpr std::chrono::milliseconds kOfACall{5};
constexpr std::int64_t kCallNs = std::chrono::nanoseconds(kOfACall).count();

/// Each call takes at least as long.
class SlowDriver final : public spillway::testing::ForwardingDriver {
 public:
  using ForwardingDriver::ForwardingDriver;
  Status allow_access(Address address, Bytes bytes) override {
    std::this_thread::sleep_for(kOfACall);
    return ForwardingDriver::allow_access(address, bytes);
  }
  Status unmap(Address address, Bytes bytes) override {
    std::this_thread::sleep_for(kOfACall);
    return ForwardingDriver::unmap(address, bytes);
  }
  Status release(Handle handle) override {
    std::this_thread::sleep_for(kOfACall);
    return ForwardingDriver::release(handle);
  }
};

class MappingTimeTest : public DeviceFixture {
 protected:
  MemoryBudget budget_{kGranule * 8};
};

TEST_F(MappingTimeTest, EachKindOfCallIsCountedOnce) {
  SlowDriver driver(device_);
  StreamClock clock(driver);
  VmmPages pages(clock, budget_, kMiB);
  const DeviceAddress block = *pages.carve(kGranule);
  const auto took = [&](auto&& call) {
    const std::int64_t before = pages.mapping_ns();
    const auto begin = now_ns();
    call();
    const std::int64_t counted = pages.mapping_ns() - before;
    EXPECT_LE(counted, now_ns() - begin);
    return counted;
  };
  EXPECT_GE(took([&] { EXPECT_TRUE(pages.open(block, kGranule)); }), kCallNs);
  pages.close(block, clock.fence(clock.slot_of(one_)));
  EXPECT_GE(took([&] { EXPECT_TRUE(pages.settle_one()); }), kCallNs);
  EXPECT_GE(took([&] { EXPECT_EQ(pages.trim(kGranule), kGranule); }), kCallNs);
}

TEST_F(MappingTimeTest, AThreadsCallsCountFromWhenTheProgramWaitsForThem) {
  MappingDriver driver(device_);
  StreamClock clock(driver);
  VmmPages pages(clock, budget_, kMiB, OpensAhead::kOnThread);
  const DeviceAddress block = *pages.carve(kGranule);
  driver.hold();
  ASSERT_TRUE(pages.open_ahead(block, kGranule, Overbooking::kRefuse));
  driver.wait_until_held();
  std::this_thread::sleep_for(kOfACall);
  EXPECT_EQ(pages.mapping_ns(), 0);
  const auto released = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(kOfACall);
    driver.release_held();
  });
  const std::int64_t begin = now_ns();
  EXPECT_TRUE(pages.finish(*pages.opening(block)));
  EXPECT_GT(pages.mapping_ns(), 0);
  EXPECT_LE(pages.mapping_ns(), now_ns() - begin) << "not what the thread took before";
}

TEST_F(MappingTimeTest, WhatAThreadDidInTimeCountsNothing) {
  MappingDriver driver(device_);
  StreamClock clock(driver);
  VmmPages pages(clock, budget_, kMiB, OpensAhead::kOnThread);
  const DeviceAddress block = *pages.carve(kGranule);
  ASSERT_TRUE(pages.open_ahead(block, kGranule, Overbooking::kRefuse));
  while (!pages.opening(block)->over()) std::this_thread::yield();
  EXPECT_TRUE(pages.opening(block)->done());
  EXPECT_EQ(pages.mapping_ns(), 0);
}

}  // namespace
}  // namespace spillway::runtime
