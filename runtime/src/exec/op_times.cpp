// SPDX-License-Identifier: Apache-2.0
#include "op_times.hpp"

#include <utility>

namespace spillway::runtime {

namespace {

void hand_on(const std::vector<OpTimer::Time>& times, TraceRecorder& recorder) {
  for (const OpTimer::Time& time : times) recorder.set_duration(time.row, time.duration);
}

}  // namespace

void OpTimes::measure(std::unique_ptr<OpTimer> timer) {
  OpTimer* none = nullptr;
  if (timer != nullptr && timer_.compare_exchange_strong(none, timer.get())) {
    static_cast<void>(timer.release());
  }
}

void OpTimes::begin(ThreadFrames& frames) noexcept {
  OpTimer* const timer = timer_.load(std::memory_order_acquire);
  if (timer == nullptr || !frames.stream) return;
  try {
    frames.timed_from = timer->begin(frames.stream->handle);
  } catch (const DeviceFailure&) {
    // The next call that needs the device says it.
  }
}

void OpTimes::end(ThreadFrames& frames, TraceRecorder& recorder,
                  std::optional<TraceRow> row) noexcept {
  const auto begun = std::exchange(frames.timed_from, std::nullopt);
  if (!begun) return;
  OpTimer& timer = *timer_.load(std::memory_order_acquire);
  try {
    if (row) {
      timer.end(*begun, *row);
    } else {
      timer.forget(*begun);
    }
    hand_on(timer.take_done(), recorder);
  } catch (const DeviceFailure&) {
    // The next call that needs the device says it.
  }
}

void OpTimes::settle(TraceRecorder& recorder) noexcept {
  OpTimer* const timer = timer_.load(std::memory_order_acquire);
  if (timer == nullptr) return;
  try {
    hand_on(timer->take_all(), recorder);
  } catch (const DeviceFailure&) {
    // What was not timed keeps the time of its launch.
  }
}

}  // namespace spillway::runtime
