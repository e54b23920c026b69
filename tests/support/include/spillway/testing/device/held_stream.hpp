// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <future>

#include "spillway/testing/device/thread_device.hpp"

namespace spillway::testing {

/// Work that is not done before a test says so: what is enqueued behind it waits. For
/// Pace::kThreads.
class HeldStream {
 public:
  HeldStream(ThreadDevice& device, runtime::DeviceStream stream) {
    const std::shared_future<void> open = opened_.get_future().share();
    static_cast<void>(device.launch(stream, {}, [open](auto) { open.wait(); }));
  }
  ~HeldStream() { release(); }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  void release() {
    if (!std::exchange(released_, true)) opened_.set_value();
  }

 private:
  std::promise<void> opened_;
  bool released_ = false;
};

}  // namespace spillway::testing
