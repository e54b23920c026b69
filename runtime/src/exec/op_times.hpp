// SPDX-License-Identifier: Apache-2.0
// Record mode where a device's streams do the work: an op's duration is the device's, which is
// known later than the op's row. Any thread; nothing is timed on the processor alone.
#pragma once

#include <atomic>
#include <memory>

#include "spillway/runtime/device/op_timer.hpp"
#include "spillway/runtime/exec/frames.hpp"
#include "spillway/runtime/exec/trace_recorder.hpp"

namespace spillway::runtime {

class OpTimes {
 public:
  OpTimes() = default;
  ~OpTimes() { delete timer_.load(); }
  OpTimes(const OpTimes&) = delete;
  OpTimes& operator=(const OpTimes&) = delete;

  /// From now on; a second timer is let go of. Null: there is no device to ask.
  void measure(std::unique_ptr<OpTimer> timer);
  /// The outermost op of the thread begins to launch. A device that fails times nothing more of it.
  void begin(ThreadFrames& frames) noexcept;
  /// It has launched; no row: nothing is recorded of it. Hands on the times of those that ended.
  void end(ThreadFrames& frames, TraceRecorder& recorder, std::optional<TraceRow> row) noexcept;
  /// Waits for the device.
  void settle(TraceRecorder& recorder) noexcept;

 private:
  std::atomic<OpTimer*> timer_{nullptr};
};

}  // namespace spillway::runtime
