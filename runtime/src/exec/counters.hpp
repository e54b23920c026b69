// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "budget_share.hpp"
#include "floor_meter.hpp"
#include "run_outcome.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/exec/statistics.hpp"
#include "spillway/runtime/exec/step_counter.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "waits.hpp"

namespace spillway::runtime {

/// Reads the counters that the parts of an engine keep, as one Statistics. Under the engine's lock.
class Counters {
 public:
  Counters(const DeviceTier& memory, Mover& mover, const BudgetShare& budget,
           const MoveRules& rules, const StepCounter& steps, const Waits& waits,
           const FloorMeter& floor, const RunOutcome& outcome);

  /// All but what needs a look at every storage, or is reported once: see `read_all`.
  [[nodiscard]] Statistics read() const;
  /// The same with `pages`, `rounding` and `storages`.
  [[nodiscard]] Statistics read_all() const;

  /// When the engine was made, on the clock of now_ns.
  [[nodiscard]] TimeNs started() const { return started_; }

 private:
  const DeviceTier& memory_;
  Mover& mover_;
  const BudgetShare& budget_;
  const MoveRules& rules_;
  const StepCounter& steps_;
  const Waits& waits_;
  const FloorMeter& floor_;
  const RunOutcome& outcome_;
  TimeNs started_;
};

}  // namespace spillway::runtime
