// SPDX-License-Identifier: Apache-2.0
// Durations of ops by a device's events, on a stand-in whose streams can be held.
#include "spillway/runtime/device/op_timer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "spillway/testing/device/held_stream.hpp"
#include "spillway/testing/device/thread_device.hpp"

namespace spillway::runtime {
namespace {

using spillway::testing::HeldStream;
using spillway::testing::ThreadDevice;

constexpr auto kKernel = std::chrono::milliseconds(10);
constexpr TimeNs kKernelNs = std::chrono::nanoseconds(kKernel).count();

class OpTimerTest : public ::testing::Test {
 protected:
  OpTimerTest() { EXPECT_TRUE(device_.create_stream(stream_).done()); }

  void run(std::size_t op, int kernels) {
    const OpTimer::Begun begun = timer_->begin(stream_);
    for (int i = 0; i < kernels; ++i) {
      EXPECT_TRUE(
          device_.launch(stream_, {}, [](auto) { std::this_thread::sleep_for(kKernel); }).done());
    }
    timer_->end(begun, {.step = 3, .op = op});
  }

  ThreadDevice device_{{.longest_delay_us = 0}};
  DeviceStream stream_{};
  std::unique_ptr<OpTimer> timer_ = std::make_unique<OpTimer>(device_);
};

TEST_F(OpTimerTest, AnOpTakesWhatItLaunchedTakes) {
  const auto begin = std::chrono::steady_clock::now();
  run(0, 1);
  run(1, 0);
  run(2, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kKernel) << "nobody waits for an op";
  const auto times = timer_->take_all();
  ASSERT_EQ(times.size(), 3U);
  EXPECT_GE(times[0].duration, kKernelNs);
  EXPECT_LT(times[1].duration, kKernelNs);
  EXPECT_GE(times[2].duration, kKernelNs * 3);
  EXPECT_EQ(times[2].row.step, 3U);
  EXPECT_EQ(times[2].row.op, 2U);
  EXPECT_TRUE(timer_->take_all().empty());
}

TEST_F(OpTimerTest, TellsWhatIsDoneAndNotWhatIsNot) {
  run(0, 0);
  ASSERT_TRUE(device_.synchronize_stream(stream_).done());
  HeldStream held(device_, stream_);
  run(1, 0);
  const auto done = timer_->take_done();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].row.op, 0U);
  EXPECT_TRUE(timer_->take_done().empty());
  held.release();
  EXPECT_EQ(timer_->take_all().size(), 1U);
}

TEST_F(OpTimerTest, WhatIsForgottenIsNeverTold) {
  timer_->forget(timer_->begin(stream_));
  run(1, 0);
  EXPECT_EQ(timer_->take_all().size(), 1U);
}

TEST_F(OpTimerTest, GivesItsEventsBack) {
  const OpTimer::Begun begun = timer_->begin(stream_);
  timer_->end(begun, {});
  static_cast<void>(timer_->take_all());
  EXPECT_TRUE(device_.query(begun.event).done()) << "it is used again";
  timer_.reset();
  EXPECT_EQ(device_.query(begun.event).outcome, DeviceOutcome::kRefused);
}

}  // namespace
}  // namespace spillway::runtime
