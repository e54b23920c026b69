// SPDX-License-Identifier: Apache-2.0
// Makes a problem of the words of a planning command: the trace, timed (step_durations.hpp); the
// machine; the budgets. Reads files. Throws UserError naming file or flag.
#pragma once

#include <cstddef>
#include <string>

#include "plan/step_durations.hpp"
#include "request/planning_request.hpp"
#include "spillway/machine/machine.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/planning/problem.hpp"
#include "spillway/planning/workspace_margin.hpp"
#include "spillway/trace/trace.hpp"
#include "text/progress_line.hpp"

namespace spillway::tools {

/// Owns what a Problem refers to; must not move while one is in use.
struct PlanningInputs {
  Trace trace;
  Machine machine;
  bool machine_named = false;  ///< by a flag or a plan, not by default
  bool of_plan = false;        ///< that exists
  StepDurations durations;
  /// Ops whose workspace the trace does not know and the machine's file does.
  std::size_t lent = 0;
  /// The device's: the first of those asked for, or the machine's capacity. The margin is for
  /// kernels that the trace does not know.
  planning::StatedBudgets budgets;

  [[nodiscard]] planning::Problem problem() const { return {trace, machine, budgets.for_plans()}; }
  /// The same with another device budget.
  [[nodiscard]] planning::Problem problem_at(Bytes device) const {
    return problem().with(budgets.with_device(device).for_plans());
  }
};

/// `path`: the trace's. `shown`: as for read_trace_shown.
PlanningInputs read_inputs(const PlanningRequest& request, const std::string& path,
                           ProgressLine* shown = nullptr);

/// Those of a plan that exists: its machine, durations, budgets and margin, where no flag says
/// otherwise.
PlanningInputs read_planned_inputs(const PlanningRequest& request, const Plan& plan,
                                   const std::string& path);

/// `12GiB`, or `60%` of the step's peak.
Bytes device_budget(const std::string& text, const Trace& trace);
/// Host and disk as asked for; the device's whole capacity.
Budgets lower_budgets(const PlanningRequest& request, const Machine& machine);

}  // namespace spillway::tools
