// SPDX-License-Identifier: Apache-2.0
// The outcome of a run while ops are not seen, and at its end.
#include "engine_lock.hpp"
#include "spillway/runtime/exec/run_outcome.hpp"

namespace spillway::runtime {

namespace {

// A step of a small network may take less than it takes to read what the process holds.
constexpr TimeNs kPublishUnwatched = 100'000'000;

}  // namespace

void Engine::note_rest(bool resting) {
  const Lock lock(*this);
  outcome_.stopped_after_step = resting ? steps_.load() : 0;
  publish();
}

// The steps of optimizers alone are known without ops: what repeated before is not counted on.
void Engine::note_unwatched_step() {
  const Lock lock(*this);
  if (in_child_ || outcome_.stopped_after_step == 0 || !steps_are_marked()) return;
  const TimeNs now = now_ns();
  if (step_started_ != 0) last_step_ns_ = now - step_started_;
  step_started_ = now;
  last_step_moved_ = {};
  steps_.fetch_add(1, std::memory_order_relaxed);
  StatusSlot* const slot = slot_.load();
  if (slot == nullptr) return;
  if (now - outcome_.published >= kPublishUnwatched) {
    outcome_.published = now;
    publish();
  } else {
    slot->steps.store(steps_.load(), std::memory_order_relaxed);
    slot->last_step_ns.store(static_cast<std::uint64_t>(last_step_ns_), std::memory_order_relaxed);
  }
}

void Engine::note_shortage(Bytes short_by) {
  outcome_.note_shortage(short_by, clock_.load() - 1);
  publish();
  rhythm_.hurry();  // that it went on
}

void Engine::note_end(Ending ending, bool unwritten) {
  const Lock lock(*this);
  if (in_child_) return;
  drain_freed();
  // Who died out of memory may still come to its end in order.
  if (outcome_.ending != Ending::kOutOfMemory) outcome_.ending = ending;
  outcome_.unwritten |= unwritten;
  outcome_.ended = now_ns();
  publish();
}

// The use of memory is published at once: who is killed leaves the truth behind.
void Engine::publish_use(StatusSlot& slot) const {
  slot.device_bytes.store(memory_.budget().used().count, std::memory_order_relaxed);
  slot.peak_device_bytes.store(memory_.budget().peak().count, std::memory_order_relaxed);
}

}  // namespace spillway::runtime
