// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/plan_source.hpp"

#include <utility>

namespace spillway::planning {

StepActions::StepActions(Plan plan) : plan_(std::move(plan)) {
  const std::vector<PlanAction>& actions = plan_.actions;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    first_.resize(to_value(actions[i].at) + 1, i);
  }
  first_.push_back(actions.size());
}

std::span<const PlanAction> StepActions::before(OpIndex op) const {
  const std::size_t at = to_value(op);
  if (at + 1 >= first_.size()) return {};
  return std::span(plan_.actions).subspan(first_[at], first_[at + 1] - first_[at]);
}

PlannerSource::PlannerSource(const Planner& planner, Options options, const Machine& machine,
                             Budgets budgets, PlanningContext context)
    : planner_(planner),
      options_(std::move(options)),
      machine_(machine),
      budgets_(budgets),
      context_(std::move(context)) {}

std::variant<StepActions, Infeasible> PlannerSource::actions_for(const Trace& record) const {
  PlanOutcome outcome = planner_.plan({record, machine_, budgets_}, options_, context_);
  if (auto* infeasible = std::get_if<Infeasible>(&outcome)) return std::move(*infeasible);
  return StepActions(std::get<Plan>(std::move(outcome)));
}

}  // namespace spillway::planning
