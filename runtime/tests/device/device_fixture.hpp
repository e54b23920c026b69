// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/testing/device/capture_device.hpp"
#include "spillway/testing/device/held_stream.hpp"

namespace spillway::runtime {

/// A stand-in card without delays of its own, and two streams of a program's.
class DeviceFixture : public ::testing::Test {
 public:
  ~DeviceFixture() override { EXPECT_TRUE(device_.complaints().empty()); }

 protected:
  using HeldStream = spillway::testing::HeldStream;
  using ThreadDevice = spillway::testing::ThreadDevice;
  using DeviceCall = spillway::testing::DeviceCall;

  static constexpr Bytes kGranule{4096};

  DeviceStream stream() {
    DeviceStream made{};
    EXPECT_TRUE(device_.create_stream(made).done());
    return made;
  }
  /// Whether all that the stream has so far is done, without waiting for it.
  bool idle(DeviceStream stream) {
    DeviceEvent event{};
    EXPECT_TRUE(device_.create_event(EventTiming::kNo, event).done());
    EXPECT_TRUE(device_.record(event, stream).done());
    return device_.query(event).done();
  }

  spillway::testing::CaptureDevice device_{{.memory = kMiB, .longest_delay_us = 0}};
  StreamClock clock_{device_};
  DeviceStream one_ = stream();
  DeviceStream two_ = stream();
};

}  // namespace spillway::runtime
