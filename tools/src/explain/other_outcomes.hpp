// SPDX-License-Identifier: Apache-2.0
// The time of a step if one decision of its plan were another.
//
// Borrows inputs and plan. One thread at a time: the simulator keeps its state between runs.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "explain/plan_variants.hpp"
#include "explain/storage_uses.hpp"
#include "plan/planning_inputs.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/planning/sim/simulator.hpp"

namespace spillway::tools {

/// The step's time with another plan, or why it cannot be carried out.
using Outcome = std::variant<TimeNs, planning::SimulationFailure>;

class OtherOutcomes {
 public:
  /// Throws UserError if the plan itself cannot be carried out.
  OtherOutcomes(const PlanningInputs& inputs, const Plan& plan, const StorageUses& uses);

  /// The time of the step with the plan as it is.
  [[nodiscard]] TimeNs step_ns() const { return step_ns_; }
  /// The outcome of every other way once, with the fastest of its plans.
  std::vector<std::pair<OtherWay, Outcome>> of(const Decision& decision);
  /// The outcome of the plan without this choice.
  Outcome without(const PlanAction& choice);

 private:
  [[nodiscard]] std::vector<PlanVariant> variants_of(const Decision& decision) const;
  Outcome outcome_of(const Plan& variant);

  const PlanningInputs& inputs_;
  const Plan& plan_;
  const StorageUses& uses_;
  planning::Simulator simulator_;
  TimeNs step_ns_ = 0;
};

}  // namespace spillway::tools
