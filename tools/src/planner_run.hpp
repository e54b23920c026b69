// SPDX-License-Identifier: Apache-2.0
// One planner, run with the request's options and time limit, with its progress on the terminal.
#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "planning_request.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/planning/sim/simulator.hpp"

namespace spillway::tools {

/// Processor time of this process: what else runs on the machine does not shorten a search.
TimeNs processor_time();

struct PlannedStep {
  Plan plan;
  planning::SimulationReport report;
};

/// The plan and what the simulator makes of it. With --seed all, the other planners run first.
/// Throws InternalError if the planner's plan fails in the simulator.
std::variant<PlannedStep, planning::Infeasible> run_planner(const planning::Planner& planner,
                                                            const planning::Problem& problem,
                                                            const PlanningRequest& request);

/// `planning: hybrid, improving, 40 %` on standard error, if that is a terminal and half a second
/// has passed; removed at the end.
class ProgressLine {
 public:
  explicit ProgressLine(std::string_view subject);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void show(double share, std::string_view doing);

 private:
  std::string_view subject_;
  bool on_terminal_;
  bool shown_ = false;
  TimeNs next_ = 0;
};

}  // namespace spillway::tools
