// SPDX-License-Identifier: Apache-2.0
#include "explain/other_outcomes.hpp"

#include "spillway/base/error.hpp"
#include "spillway/plan/validator.hpp"

namespace spillway::tools {

OtherOutcomes::OtherOutcomes(const PlanningInputs& inputs, const Plan& plan,
                             const StorageUses& uses)
    : inputs_(inputs), plan_(plan), uses_(uses), simulator_(inputs.problem()) {
  const auto outcome = simulator_.run(plan);
  if (const auto* failure = std::get_if<planning::SimulationFailure>(&outcome)) {
    throw UserError("The plan does not work: " + failure->reason +
                    ". Make it again with spillway plan.");
  }
  step_ns_ = std::get<planning::SimulationReport>(outcome).step_ns;
}

std::vector<std::pair<OtherWay, Outcome>> OtherOutcomes::of(const Decision& decision) {
  std::vector<std::pair<OtherWay, Outcome>> found;
  for (const PlanVariant& variant : variants_of(decision)) {
    Outcome outcome = outcome_of(variant.plan);
    if (found.empty() || found.back().first != variant.way) {
      found.emplace_back(variant.way, std::move(outcome));
      continue;
    }
    const auto* step = std::get_if<TimeNs>(&outcome);
    const auto* before = std::get_if<TimeNs>(&found.back().second);
    if (step != nullptr && (before == nullptr || *step < *before)) found.back().second = *step;
  }
  return found;
}

std::vector<PlanVariant> OtherOutcomes::variants_of(const Decision& decision) const {
  if (!decision.is_kept()) return plan_variants(inputs_.problem(), plan_, decision);
  const auto stretch = uses_.longest(decision.storage);
  if (!stretch) return {};
  return ways_to_leave(inputs_.problem(), plan_, decision.storage, *stretch);
}

Outcome OtherOutcomes::without(const PlanAction& choice) {
  Plan variant = plan_;
  std::erase(variant.actions, choice);
  return outcome_of(variant);
}

Outcome OtherOutcomes::outcome_of(const Plan& variant) {
  const auto flaw = validate(variant, inputs_.trace, inputs_.problem().budgets);
  if (flaw && flaw->flaw < PlanFlaw::kDeviceOverfull) {
    return planning::SimulationFailure{.op = flaw->op, .reason = flaw->text};
  }
  const auto outcome = simulator_.run(variant);
  if (const auto* failure = std::get_if<planning::SimulationFailure>(&outcome)) return *failure;
  return std::get<planning::SimulationReport>(outcome).step_ns;
}

}  // namespace spillway::tools
