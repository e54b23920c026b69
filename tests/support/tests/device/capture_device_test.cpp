// SPDX-License-Identifier: Apache-2.0
// That a captured graph does what was issued, and that what CUDA forbids beside a capture spoils
// it.
#include "spillway/testing/device/capture_device.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

namespace spillway::testing {
namespace {

using runtime::DeviceEvent;
using runtime::DeviceStream;
using runtime::EventTiming;

class CaptureDeviceTest : public ::testing::Test {
 protected:
  DeviceStream stream() {
    DeviceStream made{};
    EXPECT_TRUE(device_.create_stream(made).done());
    return made;
  }
  DeviceEvent event() {
    DeviceEvent made{};
    EXPECT_TRUE(device_.create_event(EventTiming::kNo, made).done());
    return made;
  }
  void append(DeviceStream in, int digit) {
    EXPECT_TRUE(
        device_.launch(in, {}, [this, digit](auto) { number_ = number_ * 10 + digit; }).done());
  }
  /// In a thread whose mode is that.
  void ask(CaptureMode mode) {
    std::thread([&] {
      CaptureDevice::thread_mode() = mode;
      static_cast<void>(device_.query(other_));
    }).join();
  }

  CaptureDevice device_;
  std::atomic<int> number_{0};
  DeviceStream origin_ = stream();
  DeviceStream branch_ = stream();
  DeviceEvent fork_ = event();
  DeviceEvent join_ = event();
  DeviceEvent other_ = event();
  CapturedGraph graph_;
};

TEST_F(CaptureDeviceTest, DoesNothingUntilItIsReplayedAndThenAllInOrder) {
  ASSERT_TRUE(device_.begin_capture(origin_, CaptureMode::kGlobal).done());
  append(origin_, 1);
  ASSERT_TRUE(device_.record(fork_, origin_).done());
  ASSERT_TRUE(device_.stream_wait(branch_, fork_).done());
  EXPECT_EQ(device_.capture_of(branch_).status, CaptureStatus::kActive);
  append(branch_, 2);
  ASSERT_TRUE(device_.record(join_, branch_).done());
  ASSERT_TRUE(device_.stream_wait(origin_, join_).done());
  append(origin_, 3);
  ASSERT_TRUE(device_.end_capture(origin_, graph_).done());
  EXPECT_EQ(device_.capture_of(branch_).status, CaptureStatus::kNone);
  ASSERT_TRUE(device_.synchronize().done());
  EXPECT_EQ(number_, 0);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(device_.replay(graph_, branch_).done());
  ASSERT_TRUE(device_.synchronize_stream(branch_).done());
  EXPECT_EQ(number_, 123123);
}

TEST_F(CaptureDeviceTest, OtherStreamsGoOn) {
  ASSERT_TRUE(device_.begin_capture(origin_, CaptureMode::kRelaxed).done());
  append(branch_, 4);
  ASSERT_TRUE(device_.record(other_, branch_).done());
  ASSERT_TRUE(device_.synchronize_event(other_).done());
  EXPECT_EQ(number_, 4);
  EXPECT_TRUE(device_.end_capture(origin_, graph_).done());
  EXPECT_TRUE(graph_.empty());
}

TEST_F(CaptureDeviceTest, WorkThatNobodyJoinedSpoilsIt) {
  ASSERT_TRUE(device_.begin_capture(origin_, CaptureMode::kGlobal).done());
  ASSERT_TRUE(device_.record(fork_, origin_).done());
  ASSERT_TRUE(device_.stream_wait(branch_, fork_).done());
  append(branch_, 2);
  EXPECT_EQ(device_.end_capture(origin_, graph_), CaptureDevice::kUnjoined);
}

TEST_F(CaptureDeviceTest, WaitingForWhatIsOutsideSpoilsIt) {
  ASSERT_TRUE(device_.record(other_, branch_).done());
  ASSERT_TRUE(device_.begin_capture(origin_, CaptureMode::kRelaxed).done());
  EXPECT_EQ(device_.stream_wait(origin_, other_), CaptureDevice::kIsolation);
  EXPECT_EQ(device_.end_capture(origin_, graph_), CaptureDevice::kSpoiled);
}

TEST_F(CaptureDeviceTest, AskingForWhatIsCapturedSpoilsIt) {
  CaptureDevice::thread_mode() = CaptureMode::kRelaxed;  // whatever the mode
  ASSERT_TRUE(device_.begin_capture(origin_, CaptureMode::kRelaxed).done());
  EXPECT_EQ(device_.synchronize_stream(origin_), CaptureDevice::kUnsupported);
  EXPECT_EQ(device_.end_capture(origin_, graph_), CaptureDevice::kSpoiled);
  ASSERT_TRUE(device_.begin_capture(origin_, CaptureMode::kRelaxed).done());
  ASSERT_TRUE(device_.record(fork_, origin_).done());
  EXPECT_EQ(device_.query(fork_), CaptureDevice::kCapturedEvent);
  EXPECT_EQ(device_.end_capture(origin_, graph_), CaptureDevice::kSpoiled);
  CaptureDevice::thread_mode() = CaptureMode::kGlobal;
}

// What asks is a thread of its own.
//                     the capture's mode: global  thread-local  relaxed
//   its own is global                     spoiled -             -
//   thread-local, relaxed                 -       -             -
TEST_F(CaptureDeviceTest, QuestionsOfOthersSpoilOnlyWhereBothAreGlobal) {
  ASSERT_TRUE(device_.record(other_, branch_).done());
  constexpr std::array kModes{CaptureMode::kGlobal, CaptureMode::kThreadLocal,
                              CaptureMode::kRelaxed};
  for (const CaptureMode capture : kModes) {
    for (const CaptureMode asks : kModes) {
      ASSERT_TRUE(device_.begin_capture(origin_, capture).done());
      ask(asks);
      const bool spoiled = capture == CaptureMode::kGlobal && asks == CaptureMode::kGlobal;
      EXPECT_EQ(device_.end_capture(origin_, graph_).done(), !spoiled);
    }
  }
}

TEST_F(CaptureDeviceTest, UnsafeCallsOfTheCapturingThreadSpoilUnlessRelaxed) {
  ASSERT_TRUE(device_.begin_capture(origin_, CaptureMode::kThreadLocal).done());
  CaptureDevice::thread_mode() = CaptureMode::kRelaxed;
  EXPECT_TRUE(device_.unsafe_call().done());
  CaptureDevice::thread_mode() = CaptureMode::kGlobal;
  EXPECT_EQ(device_.unsafe_call(), CaptureDevice::kUnsupported);
  EXPECT_EQ(device_.capture_of(origin_).status, CaptureStatus::kSpoiled);
  EXPECT_EQ(device_.end_capture(origin_, graph_), CaptureDevice::kSpoiled);
}

}  // namespace
}  // namespace spillway::testing
