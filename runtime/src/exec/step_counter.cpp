// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/step_counter.hpp"

namespace spillway::runtime {

bool StepCounter::ends_step(bool optimizer_step, bool repeated) {
  // The repetition before the first optimizer step was the making of the model.
  if (optimizer_step && !marked_.exchange(true)) {
    steps_.store(0);
    forgiven_step_.store(0);  // it named a step of the old count
  }
  return optimizer_step || (repeated && !marked());
}

void StepCounter::allocated(Bytes live) {
  set_live_now(live);
  if (live.count > step_peak_.load(std::memory_order_relaxed)) {
    step_peak_.store(live.count, std::memory_order_relaxed);
  }
}

void StepCounter::note_time(TimeNs now) {
  if (step_started_ != 0) last_step_ns_ = now - step_started_;
  step_started_ = now;
}

void StepCounter::count_step(TimeNs now, Bytes moved) {
  note_time(now);
  last_step_moved_ = moved - moved_at_step_;
  moved_at_step_ = moved;
  progress_.step_counted(ops());
  steps_.fetch_add(1, std::memory_order_relaxed);
  last_step_peak_.store(step_peak_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  step_peak_.store(live_now().count, std::memory_order_relaxed);
}

void StepCounter::count_unwatched_step(TimeNs now) {
  note_time(now);
  last_step_moved_ = {};
  steps_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace spillway::runtime
