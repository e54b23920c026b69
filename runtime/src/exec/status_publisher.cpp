// SPDX-License-Identifier: Apache-2.0
#include "status_publisher.hpp"

#include <cstring>

#include "spillway/runtime/shown_movers.hpp"
#include "spillway/runtime/steady_time.hpp"

namespace spillway::runtime {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
// A step of a small network may take less than it takes to read what the process holds.
constexpr TimeNs kPublishUnwatched = 100'000'000;

std::uint64_t whole(TimeNs time) { return static_cast<std::uint64_t>(time); }

}  // namespace

void StatusPublisher::open(const std::string& path) {
  if (path.empty() || slot_.load() != nullptr) return;
  page_ = StatusMapping::open(path);
  slot_.store(page_.claim_slot());
}

void StatusPublisher::publish_use() {
  StatusSlot* const slot = slot_.load(kRelaxed);
  if (slot == nullptr) return;
  slot->device_bytes.store(memory_.budget().used().count, kRelaxed);
  slot->peak_device_bytes.store(memory_.budget().peak().count, kRelaxed);
}

void StatusPublisher::publish() {
  StatusSlot* const slot = slot_.load();
  if (slot == nullptr) return;
  const Statistics counters = counters_.read();
  publish_counters(*slot, counters);
  std::strncpy(slot->pages.data(), memory_.description().c_str(), kPagesNameBytes - 1);
  slot->budget_bytes.store(budget_.limited() ? counters.budget.count : 0, kRelaxed);
  publish_outcome(*slot);
  rhythm_.updated(steps_.clock(), now_ns());
}

void StatusPublisher::publish_counters(StatusSlot& slot, const Statistics& counters) {
  slot.mode.store(static_cast<std::uint32_t>(counters.mode), kRelaxed);
  slot.device_bytes.store(counters.device.count, kRelaxed);
  slot.peak_device_bytes.store(counters.peak_device.count, kRelaxed);
  slot.unmanaged_bytes.store(counters.unmanaged.count, kRelaxed);
  slot.floor_bytes.store(counters.floor.count, kRelaxed);
  slot.host_bytes.store(counters.host.count, kRelaxed);
  slot.disk_bytes.store(counters.disk.count, kRelaxed);
  slot.evicted_bytes.store(counters.moves.evicted.count, kRelaxed);
  slot.clean_evicted_bytes.store(counters.moves.clean_evicted.count, kRelaxed);
  slot.fetched_bytes.store(counters.moves.fetched.count, kRelaxed);
  slot.disk_written_bytes.store(counters.disk_written.count, kRelaxed);
  slot.disk_read_bytes.store(counters.disk_read.count, kRelaxed);
  slot.stall_ns.store(whole(counters.stall_ns), kRelaxed);
  slot.mapping_ns.store(whole(counters.mapping_ns), kRelaxed);
  slot.elapsed_ns.store(whole(counters.elapsed_ns), kRelaxed);
  slot.steps.store(counters.steps, kRelaxed);
  slot.last_step_ns.store(whole(counters.last_step_ns), kRelaxed);
  slot.last_step_moved_bytes.store(counters.last_step_moved.count, kRelaxed);
  slot.ops.store(counters.ops, kRelaxed);
  slot.overshoot_bytes.store(counters.overshoot.count, kRelaxed);
  std::strncpy(slot.io.data(), counters.io.c_str(), kIoNameBytes - 1);
  show(counters.top_movers, slot);
}

void StatusPublisher::publish_outcome(StatusSlot& slot) const {
  slot.step_began_ops.store(steps_.progress().began(), kRelaxed);
  slot.last_step_ops.store(steps_.progress().length(), kRelaxed);
  slot.stopped_after_step.store(outcome_.stopped_after_step, kRelaxed);
  slot.shortages.store(outcome_.shortages, kRelaxed);
  slot.short_bytes.store(outcome_.short_by.count, kRelaxed);
  slot.ops_at_shortage.store(outcome_.ops_at_shortage, kRelaxed);
  slot.started_ns.store(whole(counters_.started()), kRelaxed);
  slot.ended_ns.store(whole(outcome_.ended), kRelaxed);
  slot.ending.store(static_cast<std::uint32_t>(outcome_.ending), kRelaxed);
  slot.unwritten.store(outcome_.unwritten ? 1 : 0, kRelaxed);
}

void StatusPublisher::note_rest(bool resting) {
  outcome_.stopped_after_step = resting ? steps_.steps() : 0;
  publish();
}

void StatusPublisher::note_unwatched_step() {
  StatusSlot* const slot = slot_.load();
  if (slot == nullptr) return;
  const TimeNs now = now_ns();
  if (now - outcome_.published >= kPublishUnwatched) {
    outcome_.published = now;
    publish();
  } else {
    slot->steps.store(steps_.steps(), kRelaxed);
    slot->last_step_ns.store(whole(steps_.last_step_ns()), kRelaxed);
  }
}

void StatusPublisher::note_shortage(Bytes short_by) {
  outcome_.note_shortage(short_by, steps_.ops());
  publish();
  rhythm_.hurry();  // that it went on
}

void StatusPublisher::note_end(Ending ending, bool unwritten) {
  // A process that died out of memory may still end in order.
  if (outcome_.ending != Ending::kOutOfMemory) outcome_.ending = ending;
  outcome_.unwritten |= unwritten;
  outcome_.ended = now_ns();
  publish();
}

}  // namespace spillway::runtime
