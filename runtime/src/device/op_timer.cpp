// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/op_timer.hpp"

namespace spillway::runtime {

OpTimer::~OpTimer() {
  for (const Op& op : pending_) free_.insert(free_.end(), {op.began, op.ended});
  for (const DeviceEvent event : free_) static_cast<void>(driver_.destroy_event(event));
}

DeviceEvent OpTimer::record_locked(DeviceStream stream) {
  DeviceEvent event{};
  if (free_.empty()) {
    expect_done(driver_, driver_.create_event(EventTiming::kYes, event), "making an event");
  } else {
    event = free_.back();
    free_.pop_back();
  }
  expect_done(driver_, driver_.record(event, stream), "timing an op");
  return event;
}

OpTimer::Begun OpTimer::begin(DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  return {.event = record_locked(stream), .stream = stream};
}

void OpTimer::end(const Begun& begun, TraceRow row) {
  const std::lock_guard lock(mutex_);
  pending_.push_back({.began = begun.event, .ended = record_locked(begun.stream), .row = row});
}

void OpTimer::forget(const Begun& begun) {
  const std::lock_guard lock(mutex_);
  free_.push_back(begun.event);
}

OpTimer::Time OpTimer::time_of_first_locked() {
  const Op op = pending_.front();
  Time time{.row = op.row};
  expect_done(driver_, driver_.elapsed(op.began, op.ended, time.duration), "timing an op");
  pending_.pop_front();
  free_.insert(free_.end(), {op.began, op.ended});
  return time;
}

std::vector<OpTimer::Time> OpTimer::take_done() {
  const std::lock_guard lock(mutex_);
  std::vector<Time> times;
  while (!pending_.empty()) {
    const DeviceStatus status = driver_.query(pending_.front().ended);
    if (status.outcome == DeviceOutcome::kNotYet) break;
    expect_done(driver_, status, "timing an op");
    times.push_back(time_of_first_locked());
  }
  return times;
}

std::vector<OpTimer::Time> OpTimer::take_all() {
  const std::lock_guard lock(mutex_);
  std::vector<Time> times;
  while (!pending_.empty()) {
    expect_done(driver_, driver_.synchronize_event(pending_.front().ended), "timing an op");
    times.push_back(time_of_first_locked());
  }
  return times;
}

}  // namespace spillway::runtime
