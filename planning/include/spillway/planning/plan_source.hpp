// SPDX-License-Identifier: Apache-2.0
// The source of a step's actions, for whoever carries them out.
//
//     ops, recorded as they ran --+                            +--> before op 0: fetch 3
//                                 +--> Trace --> PlanSource ---+--> before op 7: evict 2
//     nodes of a graph, in order -+                            +--> ...
//
// It takes the record of a step: its ops with what they touch, bytes, durations and roles. It gives
// what to do at each position of an op. A source does not know how the record was made, and whoever
// carries the actions out does not know who decided. So every framework's adapter feeds the same
// planners.
#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "spillway/base/ids.hpp"
#include "spillway/machine/machine.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::planning {

/// A plan by the positions of ops. A value; const members are for any thread.
class StepActions {
 public:
  /// The plan's actions are sorted, as sort() leaves them.
  explicit StepActions(Plan plan);

  /// Returns the actions, in order, for when computing is about to begin the op; for the number of
  /// ops, those at the end of the step. In constant time. Refers to this object.
  [[nodiscard]] std::span<const PlanAction> before(OpIndex op) const;
  /// With the places where storages begin.
  [[nodiscard]] const Plan& plan() const { return plan_; }

 private:
  Plan plan_;
  std::vector<std::size_t> first_;  // by op, up to the last with an action, and one more
};

class PlanSource {
 public:
  virtual ~PlanSource() = default;
  /// The record is valid and has durations. Errors as of Planner::plan.
  [[nodiscard]] virtual std::variant<StepActions, Infeasible> actions_for(
      const Trace& record) const = 0;
};

/// Plans anew for each record. Refers to planner and machine, which must live longer.
class PlannerSource final : public PlanSource {
 public:
  PlannerSource(const Planner& planner, Options options, const Machine& machine, Budgets budgets,
                PlanningContext context = {});

  [[nodiscard]] std::variant<StepActions, Infeasible> actions_for(
      const Trace& record) const override;

 private:
  const Planner& planner_;
  Options options_;
  const Machine& machine_;
  Budgets budgets_;
  PlanningContext context_;
};

}  // namespace spillway::planning
