// SPDX-License-Identifier: Apache-2.0
#include "counters.hpp"

#include "spillway/runtime/memory_probe.hpp"
#include "spillway/runtime/status_page.hpp"
#include "spillway/runtime/steady_time.hpp"

namespace spillway::runtime {

Counters::Counters(const DeviceTier& memory, Mover& mover, const BudgetShare& budget,
                   const MoveRules& rules, const StepCounter& steps, const Waits& waits,
                   const FloorMeter& floor, const RunOutcome& outcome)
    : memory_(memory),
      mover_(mover),
      budget_(budget),
      rules_(rules),
      steps_(steps),
      waits_(waits),
      floor_(floor),
      outcome_(outcome),
      started_(now_ns()) {}

Statistics Counters::read() const {
  Statistics result;
  result.mode = rules_.mode();
  result.budget = budget_.stated();
  result.shared = budget_.claimed_by_others();
  result.device = memory_.budget().used();
  result.unmanaged = budget_.covers_unmanaged() ? budget_.unmanaged()
                                                : saturating_sub(resident_bytes(), result.device);
  result.peak_device = memory_.budget().peak();
  result.peak_live = memory_.peak_live();
  result.floor = floor_.floor();
  result.host = mover_.used(Tier::kHost);
  if (mover_.spool() != nullptr) result.disk = mover_.spool()->used_bytes();
  if (mover_.has_transfers()) {
    result.io = mover_.transfers().description();
    result.disk_written = mover_.transfers().bytes_written();
    result.disk_read = mover_.transfers().bytes_read();
  }
  result.overshoot = memory_.budget().overshoot();
  result.stall_ns = waits_.stalled_ns();
  result.mapping_ns = memory_.mapping_ns();
  result.elapsed_ns = now_ns() - started_;
  result.ops = steps_.ops();
  result.steps = steps_.steps();
  result.last_step_ns = steps_.last_step_ns();
  result.last_step_moved = steps_.last_step_moved();
  result.stopped_after_step = outcome_.stopped_after_step;
  result.shortages = outcome_.shortages;
  result.short_by = outcome_.short_by;
  result.out_of_memory = outcome_.ending == Ending::kOutOfMemory;
  result.moves = mover_.statistics();
  result.top_movers = mover_.tally().top(kTopMovers);
  return result;
}

Statistics Counters::read_all() const {
  Statistics result = read();
  result.pages = memory_.description();
  result.rounding = memory_.small_rounding();
  for (const StorageRecord* record : mover_.live()) {
    result.rounding += memory_.rounding(*record->block);
  }
  result.storages = mover_.live().size();
  return result;
}

}  // namespace spillway::runtime
