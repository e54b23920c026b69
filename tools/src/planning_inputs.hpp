// SPDX-License-Identifier: Apache-2.0
// From the words of a planning command to a problem: the trace, timed; the machine; the budgets.
// Reads files. Throws UserError naming file or flag.
#pragma once

#include <string>

#include "planning_request.hpp"
#include "progress_line.hpp"
#include "spillway/machine/machine.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/planning/problem.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tools {

/// Owns what a Problem refers to; must not move while one is in use.
struct PlanningInputs {
  Trace trace;
  Machine machine;
  bool estimated = false;  ///< durations by the machine's figures, not those recorded
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

/// The answer in terms of whole budgets: what would fit needs the margin besides.
planning::Infeasible beside(planning::Infeasible answer, Bytes margin);
/// Likewise, with what is short of the stated device budget.
planning::Infeasible as_stated(const planning::Infeasible& answer, const PlanningInputs& inputs);

/// Lines of at most 80 columns: what machine, and where the durations are from.
std::string heading(const PlanningInputs& inputs);

/// What is left free of the device's budget; empty where nothing is.
std::string margin_line(const PlanningInputs& inputs);

/// `12GiB`, or `60%` of the step's peak.
Bytes device_budget(const std::string& text, const Trace& trace);
/// Host and disk as asked for; the device's whole capacity.
Budgets lower_budgets(const PlanningRequest& request, const Machine& machine);

}  // namespace spillway::tools
