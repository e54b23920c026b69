// SPDX-License-Identifier: Apache-2.0
// That the stand-in card is as strict as it says: a test on it is worth what it refuses.
#include "spillway/testing/device/thread_device.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "spillway/testing/device/held_stream.hpp"

namespace spillway::testing {
namespace {

using runtime::DeviceAddress;
using runtime::DeviceEvent;
using runtime::DeviceOutcome;
using runtime::DeviceStream;
using runtime::EventTiming;
using runtime::PagesHandle;

constexpr Bytes kGranule{4096};

struct Block {
  DeviceAddress address{};
  PagesHandle handle{};
};

Block open(ThreadDevice& device) {
  Block block;
  EXPECT_TRUE(device.reserve(kGranule, kGranule.count, block.address).done());
  EXPECT_TRUE(device.create(kGranule, block.handle).done());
  EXPECT_TRUE(device.map(block.address, kGranule, block.handle).done());
  EXPECT_TRUE(device.allow_access(block.address, kGranule).done());
  return block;
}

DeviceStream stream(ThreadDevice& device) {
  DeviceStream made{};
  EXPECT_TRUE(device.create_stream(made).done());
  return made;
}

TEST(ThreadDeviceDeathTest, TheProcessorCannotTouchDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ThreadDevice device;
  const Block block = open(device);
  const auto* const pointer =
      reinterpret_cast<const volatile char*>(static_cast<std::uintptr_t>(to_value(block.address)));
  EXPECT_DEATH(static_cast<void>(*pointer), "") << "mapped, but not for the processor";
}

TEST(ThreadDeviceTest, ALaunchReturnsBeforeItRuns) {
  ThreadDevice device;
  const DeviceStream mine = stream(device);
  std::atomic<bool> ran{false};
  HeldStream held(device, mine);
  ASSERT_TRUE(device.launch(mine, {}, [&](auto) { ran = true; }).done());
  EXPECT_FALSE(ran);
  held.release();
  ASSERT_TRUE(device.synchronize().done());
  EXPECT_TRUE(ran);
}

/// Two streams that nothing orders: both orders come up, on threads and by calls.
TEST(ThreadDeviceTest, StreamsRunInAnyOrder) {
  for (const Pace pace : {Pace::kThreads, Pace::kByCalls}) {
    std::set<int> firsts;
    for (std::uint64_t seed = 1; seed <= 200 && firsts.size() < 2; ++seed) {
      ThreadDevice device({.pace = pace, .seed = seed});
      const DeviceStream one = stream(device);
      const DeviceStream two = stream(device);
      std::atomic<int> first{0};
      const auto note = [&](int which) {
        return [&first, which](auto) {
          int none = 0;
          first.compare_exchange_strong(none, which);
        };
      };
      ASSERT_TRUE(device.launch(one, {}, note(1)).done());
      ASSERT_TRUE(device.launch(two, {}, note(2)).done());
      ASSERT_TRUE(device.synchronize().done());
      firsts.insert(first);
    }
    EXPECT_EQ(firsts.size(), 2U) << static_cast<int>(pace);
  }
}

TEST(ThreadDeviceTest, ByCallsIsRepeatable) {
  const auto order = [](std::uint64_t seed) {
    ThreadDevice device({.pace = Pace::kByCalls, .seed = seed});
    std::vector<DeviceStream> streams;
    streams.reserve(4);
    for (int i = 0; i < 4; ++i) streams.push_back(stream(device));
    std::vector<int> ran;
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(device
                      .launch(streams[static_cast<std::size_t>(i) % 4], {},
                              [&ran, i](auto) { ran.push_back(i); })
                      .done());
    }
    EXPECT_TRUE(device.synchronize().done());
    return ran;
  };
  EXPECT_EQ(order(7), order(7));
  EXPECT_NE(order(7), order(8));
}

TEST(ThreadDeviceTest, UnmappingUnderEnqueuedWorkLosesTheDevice) {
  ThreadDevice device;
  const Block block = open(device);
  const DeviceStream mine = stream(device);
  HeldStream held(device, mine);
  ASSERT_TRUE(device.fill(block.address, std::byte{1}, kGranule, mine).done());
  EXPECT_EQ(device.unmap(block.address, kGranule).outcome, DeviceOutcome::kLost);
  ASSERT_EQ(device.complaints().size(), 1U);
  EXPECT_NE(device.complaints()[0].find("unmapped while enqueued work uses it"), std::string::npos);
  EXPECT_EQ(device.release(block.handle).outcome, DeviceOutcome::kLost) << "and stays lost";
}

TEST(ThreadDeviceTest, NewMemoryHoldsWhatWasThere) {
  ThreadDevice device;
  const Block first = open(device);
  ASSERT_TRUE(device.fill(first.address, std::byte{5}, kGranule, DeviceStream{0}).done());
  ASSERT_TRUE(device.synchronize().done());
  ASSERT_TRUE(device.unmap(first.address, kGranule).done());
  ASSERT_TRUE(device.release(first.handle).done());
  const Block second = open(device);
  std::byte seen{};
  ASSERT_TRUE(device.copy_out(&seen, second.address, {1}, DeviceStream{0}).done());
  EXPECT_EQ(seen, std::byte{5}) << "nobody may count on zeros";
}

TEST(ThreadDeviceTest, CopiesOfMemoryThatIsNotPageLockedHoldTheCallerUp) {
  ThreadDevice device;
  const Block block = open(device);
  ASSERT_TRUE(device.fill(block.address, std::byte{9}, kGranule, DeviceStream{0}).done());
  std::vector<std::byte> host(kGranule.count);
  ASSERT_TRUE(device.copy_out(host.data(), block.address, kGranule, DeviceStream{0}).done());
  EXPECT_EQ(host.back(), std::byte{9}) << "it was waited for";
  EXPECT_EQ(device.pageable_copies(), 1U);
}

TEST(ThreadDeviceTest, PageLockingMayNotEndUnderACopy) {
  ThreadDevice device;
  const Block block = open(device);
  void* const memory =
      mmap(nullptr, kGranule.count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const host = static_cast<std::byte*>(memory);
  ASSERT_TRUE(device.register_host(host, kGranule).done());
  HeldStream held(device, DeviceStream{0});
  ASSERT_TRUE(device.copy_out(host, block.address, kGranule, DeviceStream{0}).done());
  EXPECT_EQ(device.unregister_host(host).outcome, DeviceOutcome::kLost);
  EXPECT_EQ(device.complaints().size(), 1U);
}

TEST(ThreadDeviceTest, FailsWhatATestSays) {
  ThreadDevice device;
  device.fail(DeviceCall::kCreate, 2, ThreadDevice::kOutOfMemory);
  PagesHandle handle{};
  EXPECT_TRUE(device.create(kGranule, handle).done());
  EXPECT_EQ(device.create(kGranule, handle), ThreadDevice::kOutOfMemory);
  EXPECT_TRUE(device.create(kGranule, handle).done());
  device.fail(DeviceCall::kCreate, 1, ThreadDevice::kInvalid, true);
  EXPECT_EQ(device.create(kGranule, handle), ThreadDevice::kInvalid);
  EXPECT_EQ(device.create(kGranule, handle), ThreadDevice::kInvalid);
  EXPECT_EQ(device.used(), kGranule * 2);
}

TEST(ThreadDeviceTest, ItsMemoryEnds) {
  ThreadDevice device({.memory = kGranule * 2});
  PagesHandle handle{};
  ASSERT_TRUE(device.create(kGranule, handle).done());
  EXPECT_EQ(device.create(kGranule * 2, handle), ThreadDevice::kOutOfMemory);
  EXPECT_TRUE(device.create(kGranule, handle).done());
}

TEST(ThreadDeviceTest, NothingHangsWhenItIsLost) {
  ThreadDevice device;
  const DeviceStream mine = stream(device);
  DeviceEvent event{};
  ASSERT_TRUE(device.create_event(EventTiming::kNo, event).done());
  HeldStream held(device, mine);
  ASSERT_TRUE(device.record(event, mine).done());
  device.lose();
  EXPECT_EQ(device.synchronize_event(event), ThreadDevice::kLost);
  EXPECT_EQ(device.synchronize(), ThreadDevice::kLost);
}

}  // namespace
}  // namespace spillway::testing
