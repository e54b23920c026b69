// SPDX-License-Identifier: Apache-2.0
// One planner, run with the request's options and time limit, with its progress on the terminal.
#pragma once

#include <variant>
#include <vector>

#include "request/planning_request.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/planning/sim/simulator.hpp"
#include "text/progress_line.hpp"

namespace spillway::tools {

/// Those that the request is about; none for commands that run none. Throws UserError naming the
/// nearest planner.
std::vector<const planning::Planner*> chosen_planners(const PlanningRequest& request);

/// Whether time limit and seeds mean anything to the planner.
bool searches(const planning::Planner& planner);

bool has_option(const planning::Planner& planner, std::string_view name);
/// Those of the request's options that the planner has. Throws UserError for a value it refuses.
planning::Options options_for(const planning::Planner& planner, const PlanningRequest& request);

struct PlannedStep {
  Plan plan;
  planning::SimulationReport report;
};

/// The plan and what the simulator makes of it. With --seed all, the other planners run first for
/// one that searches.
/// Throws InternalError if the planner's plan fails in the simulator.
std::variant<PlannedStep, planning::Infeasible> run_planner(const planning::Planner& planner,
                                                            const planning::Problem& problem,
                                                            const PlanningRequest& request,
                                                            ProgressLine& progress);

}  // namespace spillway::tools
