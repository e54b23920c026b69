// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "spillway/runtime/exec/mover.hpp"
#include "spillway/testing/device/thread_device.hpp"

namespace spillway::runtime {

/// Launches a program's kernels. As a program must, it orders those that use one storage on
/// different streams: a read after the last write, a write after all reads too. All else is the
/// protocol's. Not thread-safe. Throws DeviceFailure.
class OrderedLaunches {
 public:
  struct Launched {
    DeviceStream stream;
    DeviceEvent event;
  };
  /// Of one storage.
  struct Uses {
    std::optional<Launched> written;
    std::vector<Launched> read;  // since then
  };
  struct Operand {
    Uses* uses;
    Access access;
    spillway::testing::DeviceAccess at;
  };

  explicit OrderedLaunches(spillway::testing::ThreadDevice& device) : device_(device) {}
  ~OrderedLaunches() {
    for (const DeviceEvent event : events_) static_cast<void>(device_.destroy_event(event));
  }
  OrderedLaunches(const OrderedLaunches&) = delete;
  OrderedLaunches& operator=(const OrderedLaunches&) = delete;

  void launch(DeviceStream stream, const std::vector<Operand>& operands,
              spillway::testing::DeviceKernel kernel) {
    std::vector<spillway::testing::DeviceAccess> accesses;
    for (const Operand& operand : operands) {
      order(stream, *operand.uses, operand.access);
      accesses.push_back(operand.at);
    }
    DeviceEvent event{};
    expect_done(device_, device_.create_event(EventTiming::kNo, event), "an event");
    events_.push_back(event);
    expect_done(device_, device_.launch(stream, accesses, std::move(kernel)), "a launch");
    expect_done(device_, device_.record(event, stream), "a record");
    ++launched_;
    for (const Operand& operand : operands) note(operand, {stream, event});
  }
  [[nodiscard]] std::uint64_t launched() const { return launched_; }
  /// What comes next in the stream starts after those uses that it has to: before the op begins
  /// that launches it.
  void order(DeviceStream stream, const Uses& uses, Access access) {
    const auto after = [&](const Launched& launched) {
      if (launched.stream == stream) return;
      expect_done(device_, device_.stream_wait(stream, launched.event), "a wait");
    };
    if (uses.written) after(*uses.written);
    if (access == Access::kRead) return;
    for (const Launched& launched : uses.read) after(launched);
  }

 private:
  static void note(const Operand& operand, const Launched& launched) {
    if (operand.access == Access::kWrite) {
      operand.uses->read.clear();
      operand.uses->written = launched;
    } else {
      operand.uses->read.push_back(launched);
    }
  }

  spillway::testing::ThreadDevice& device_;
  std::vector<DeviceEvent> events_;
  std::uint64_t launched_ = 0;
};

}  // namespace spillway::runtime
