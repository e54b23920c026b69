// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/device_watcher.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "device_fixture.hpp"

namespace spillway::runtime {
namespace {

using ::testing::HasSubstr;

class DeviceWatcherTest : public DeviceFixture {};

TEST_F(DeviceWatcherTest, SeesWhatEndsWhileTheProgramDoesSomethingElse) {
  HeldStream held(device_, one_);
  const Fence fence = clock_.fence(clock_.slot_of(one_));
  std::promise<void> seen;
  std::atomic<int> looks{0};
  DeviceWatcher watcher(
      device_,
      [&] {
        ++looks;
        if (!clock_.passed(fence)) return true;
        seen.set_value();
        return false;
      },
      [](const std::string& said) { ADD_FAILURE() << said; });
  EXPECT_EQ(looks, 0) << "nobody woke it";
  watcher.wake();
  while (looks < 3) std::this_thread::yield();
  held.release();
  seen.get_future().wait();
}

TEST_F(DeviceWatcherTest, EndsAtOnceInTheMiddleOfWatching) {
  std::atomic<int> looks{0};
  {
    DeviceWatcher watcher(
        device_, [&] { return ++looks > 0; }, [](const std::string&) {});
    watcher.wake();
    while (looks == 0) std::this_thread::yield();
  }
  const int after = looks;
  std::this_thread::yield();
  EXPECT_EQ(looks, after);
}

TEST_F(DeviceWatcherTest, TellsAFailureOnceAndLooksNoMore) {
  std::promise<std::string> told;
  std::atomic<int> looks{0};
  DeviceWatcher watcher(
      device_,
      [&] {
        ++looks;
        clock_.tick(clock_.slot_of(one_));
        return true;
      },
      [&](const std::string& said) { told.set_value(said); });
  device_.lose();
  watcher.wake();
  EXPECT_THAT(told.get_future().get(), HasSubstr("illegal address (700)"));
  watcher.wake();
  EXPECT_EQ(looks, 1);
}

}  // namespace
}  // namespace spillway::runtime
