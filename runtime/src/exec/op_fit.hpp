// SPDX-License-Identifier: Apache-2.0
// Tells whether an op can end under the budget, by what it needed when it ran before (OpNeeds): one
// that cannot is refused before it begins, rather than half-way. Takes the engine's lock itself.
#pragma once

#include <optional>

#include "budget_share.hpp"
#include "engine_lock.hpp"
#include "freed_storages.hpp"
#include "shortages.hpp"
#include "spillway/runtime/exec/frames.hpp"
#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/exec/step_counter.hpp"
#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

class OpFit {
 public:
  OpFit(EngineMutex& mutex, const DeviceTier& memory, const Mover& mover, BudgetShare& budget,
        const MoveRules& rules, const StepCounter& steps, FreedStorages& freed,
        Shortages& shortages)
      : mutex_(mutex),
        memory_(memory),
        mover_(mover),
        budget_(budget),
        rules_(rules),
        steps_(steps),
        freed_(freed),
        shortages_(shortages) {}
  OpFit(const OpFit&) = delete;
  OpFit& operator=(const OpFit&) = delete;

  /// The inputs of the thread's outermost op are pinned. False if it cannot end (`last_failure`
  /// says why).
  bool will_fit(ThreadFrames& frames);

  /// An input of the op did not come back. All of them are known now, so the error names what the
  /// whole op needs, and need not grow by one input at each larger budget that is tried.
  void say_whole_need(ThreadFrames& frames);

 private:
  [[nodiscard]] std::optional<OutOfBudget::Facts> known_shortage(ThreadFrames& frames);
  [[nodiscard]] std::optional<OutOfBudget::Facts> whole_shortage(ThreadFrames& frames);
  void say(OutOfBudget::Facts facts) const;

  EngineMutex& mutex_;
  const DeviceTier& memory_;
  const Mover& mover_;
  BudgetShare& budget_;
  const MoveRules& rules_;
  const StepCounter& steps_;
  FreedStorages& freed_;
  Shortages& shortages_;
};

}  // namespace spillway::runtime
