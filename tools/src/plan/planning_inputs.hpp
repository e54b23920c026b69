// SPDX-License-Identifier: Apache-2.0
// From the words of a planning command to a problem: the trace, timed (step_durations.hpp); the
// machine; the budgets.
// Reads files. Throws UserError naming file or flag.
#pragma once

#include <string>

#include "plan/step_durations.hpp"
#include "request/planning_request.hpp"
#include "spillway/machine/machine.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/planning/problem.hpp"
#include "spillway/trace/trace.hpp"
#include "text/output_text.hpp"
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
  /// Left free of the device's budget, for kernels that the trace does not know.
  Bytes margin{};
  /// The first of the device budgets asked for, or the machine's capacity.
  Bytes whole_device{};
  Budgets budgets;  ///< the device's less the margin

  [[nodiscard]] planning::Problem problem() const { return {trace, machine, budgets}; }
  /// As the person stated them: the device's with the margin.
  [[nodiscard]] Budgets stated_budgets() const;
  /// The same with another device budget.
  [[nodiscard]] planning::Problem problem_at(Bytes device) const;
};

/// `path`: the trace's. `shown`: as for read_trace_shown.
PlanningInputs read_inputs(const PlanningRequest& request, const std::string& path,
                           ProgressLine* shown = nullptr);

/// Those of a plan that exists: its machine, durations, budgets and margin, where no flag says
/// otherwise.
PlanningInputs read_planned_inputs(const PlanningRequest& request, const Plan& plan,
                                   const std::string& path);

/// The answer in terms of whole budgets: what would fit needs the margin besides.
planning::Infeasible beside(planning::Infeasible answer, Bytes margin);
/// Likewise, with what is short of the stated device budget.
planning::Infeasible as_stated(const planning::Infeasible& answer, const PlanningInputs& inputs);

/// Lines of at most 80 columns: what machine, and where the durations are from.
std::string heading(const PlanningInputs& inputs);
/// The first of them. `named`: by a flag or a plan, not by default.
std::string machine_line(const std::string& name, bool named);

/// The line about the part of the device's budget that stays free; empty where nothing is.
std::string margin_line(const PlanningInputs& inputs);

/// The same facts as members of an answer: `machine`, `recorded_on`, `recorded_elsewhere`,
/// `durations`, `workspace_margin`.
void add_inputs(Json& json, const PlanningInputs& inputs);

/// `12GiB`, or `60%` of the step's peak.
Bytes device_budget(const std::string& text, const Trace& trace);
/// Host and disk as asked for; the device's whole capacity.
Budgets lower_budgets(const PlanningRequest& request, const Machine& machine);

}  // namespace spillway::tools
