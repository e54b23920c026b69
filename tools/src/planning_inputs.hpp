// SPDX-License-Identifier: Apache-2.0
// From the words of a planning command to a problem: the trace, timed; the machine; the budgets.
// Reads files. Throws UserError naming file or flag.
#pragma once

#include <string>

#include "planning_request.hpp"
#include "spillway/machine/machine.hpp"
#include "spillway/planning/problem.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tools {

/// Owns what a Problem refers to; must not move while one is in use.
struct PlanningInputs {
  Trace trace;
  Machine machine;
  bool estimated = false;  ///< durations by the machine's figures, not those recorded
  Budgets budgets;         ///< the first of the device budgets asked for, or the machine's capacity

  [[nodiscard]] planning::Problem problem() const { return {trace, machine, budgets}; }
};

/// `path`: the trace's.
PlanningInputs read_inputs(const PlanningRequest& request, const std::string& path);

/// Lines of at most 80 columns: what machine, and where the durations are from.
std::string heading(const PlanningInputs& inputs);

/// `12GiB`, or `60%` of the step's peak.
Bytes device_budget(const std::string& text, const Trace& trace);
/// Host and disk as asked for; the device's whole capacity.
Budgets lower_budgets(const PlanningRequest& request, const Machine& machine);

}  // namespace spillway::tools
