// SPDX-License-Identifier: Apache-2.0
// `spillway plan` and `spillway simulate`: one plan and what comes of it.
//
// Each reads files, computes on the calling thread and writes the files that it was asked to write.
// Throws UserError for mistakes in flags and files. The answers own what they hold.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "plan/planning_inputs.hpp"
#include "request/planning_request.hpp"
#include "spillway/planning/bound/lower_bound.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/planning/sim/simulator.hpp"

namespace spillway::tools {

/// A plan that was made.
struct PlanAnswer {
  PlanningInputs inputs;
  std::string planner;
  std::size_t actions = 0;
  planning::SimulationReport report;
  planning::LowerBound bound;
  std::optional<std::string> written_to;
};

/// There is no plan.
struct NoPlanAnswer {
  PlanningInputs inputs;
  planning::Infeasible reason;  ///< about the stated budgets
};

/// A step that was simulated.
struct SimulationAnswer {
  PlanningInputs inputs;
  std::string planner;  ///< empty without a plan
  planning::SimulationReport report;
  bool timeline = false;  ///< it is part of the answer
  /// Without a plan and its budgets nothing binds but computing.
  std::optional<planning::LowerBound> bound;
};

/// A step that cannot be simulated to its end.
struct FailureAnswer {
  PlanningInputs inputs;
  planning::SimulationFailure failure;
};

std::variant<PlanAnswer, NoPlanAnswer> plan_step(const PlanningRequest& request);
std::variant<SimulationAnswer, FailureAnswer> simulate_step(const PlanningRequest& request);

}  // namespace spillway::tools
