// SPDX-License-Identifier: Apache-2.0
// `spillway what-if`: the smallest budget for a slowdown; which card fits; which of several traces
// fits; the largest batch (what_if_batch.hpp).
//
// Each reads files and computes on the calling thread. Throws UserError for mistakes in flags and
// files. The answers own what they hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/planning_inputs.hpp"
#include "request/planning_request.hpp"

namespace spillway::tools {

/// Returns how much longer a step of `step` is than one of `compute`, as a share; 0 where `compute`
/// is 0.
double slowdown_of(TimeNs step, TimeNs compute);

/// The result of a search for a budget.
struct SmallestBudgetAnswer {
  PlanningInputs inputs;
  double slowdown = 0;  ///< at most, as asked for
  std::string planner;
  TimeNs compute_ns = 0;
  Bytes peak{};  ///< of the step without a plan
  Bytes most{};  ///< where all of the step fits, with what is left free
  std::optional<TimeNs> step_at_most;
  std::optional<Bytes> budget;  ///< the smallest that was tried and is enough

  [[nodiscard]] bool machine_has_it() const {
    return budget && *budget <= inputs.budgets.stated[Tier::kDevice];
  }
};

/// Steps on one machine each, with their plans.
struct FitsAnswer {
  struct Row {
    std::string name;
    Bytes budget{};
    Bytes peak{};
    Bytes margin{};  ///< of the budget, left free for workspace
    bool workspace_known = true;
    Durations durations = Durations::kRecorded;
    TimeNs compute_ns = 0;
    std::optional<TimeNs> step_ns;  ///< nothing: no plan fits
  };

  std::string what;     ///< each row is: `machine`, `trace`
  std::string machine;  ///< of all rows; empty where each is one
  std::vector<Row> rows;
};

SmallestBudgetAnswer smallest_budget(const PlanningRequest& request);
FitsAnswer try_machines(const PlanningRequest& request);
FitsAnswer try_traces(const PlanningRequest& request);

}  // namespace spillway::tools
