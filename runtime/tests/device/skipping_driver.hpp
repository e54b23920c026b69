// SPDX-License-Identifier: Apache-2.0
// The seam where tests take a wait of the protocol away: it lies in the driver, so what ships has
// no switch for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "spillway/testing/device/forwarding_driver.hpp"

namespace spillway::runtime {

/// Who waits for whom.
enum class WaitKind : std::uint8_t {
  kStream,  ///< a stream, on the device
  kHost,    ///< the host: it asks whether an event has passed, or sleeps until it has
  kRecord   ///< nobody: the mark itself, without which all waits for it are for nothing
};

struct Wait {
  WaitKind kind = WaitKind::kStream;
  std::uintptr_t waiter = 0;   ///< kStream
  std::uintptr_t awaited = 0;  ///< the stream that the event was recorded in last
};

/// Leaves out the waits that `skips` says. Thread-safe.
class SkippingDriver final : public spillway::testing::ForwardingDriver {
 public:
  using Skips = std::function<bool(const Wait&)>;

  SkippingDriver(DeviceDriver& to, Skips skips) : ForwardingDriver(to), skips_(std::move(skips)) {}

  Status record(Event event, Stream stream) override {
    {
      const std::lock_guard lock(mutex_);
      recorded_[event] = static_cast<std::uintptr_t>(stream);
    }
    if (skipped(WaitKind::kRecord, event)) return {};
    return ForwardingDriver::record(event, stream);
  }
  Status stream_wait(Stream stream, Event event) override {
    if (skipped(WaitKind::kStream, event, stream)) return {};
    return ForwardingDriver::stream_wait(stream, event);
  }
  Status query(Event event) override {
    if (skipped(WaitKind::kHost, event)) return {};
    return ForwardingDriver::query(event);
  }
  Status synchronize_event(Event event) override {
    if (skipped(WaitKind::kHost, event)) return {};
    return ForwardingDriver::synchronize_event(event);
  }

 private:
  bool skipped(WaitKind kind, Event event, Stream waiter = {}) {
    const std::lock_guard lock(mutex_);
    return skips_ && skips_({kind, static_cast<std::uintptr_t>(waiter), recorded_[event]});
  }

  const Skips skips_;
  std::mutex mutex_;
  std::map<Event, std::uintptr_t> recorded_;
};

}  // namespace spillway::runtime
