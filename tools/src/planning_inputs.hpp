// SPDX-License-Identifier: Apache-2.0
// From the words of a planning command to a problem: the trace, timed; the machine; the budgets.
// Reads files. Throws UserError naming file or flag.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planning_request.hpp"
#include "spillway/machine/machine.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/planning/problem.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tools {

/// Owns what a Problem refers to; must not move while one is in use.
struct PlanningInputs {
  Trace trace;
  Machine machine;
  Budgets budgets;  ///< the first of the device budgets asked for, or the machine's capacity

  [[nodiscard]] planning::Problem problem() const { return {trace, machine, budgets}; }
};

/// `path`: the trace's.
PlanningInputs read_inputs(const PlanningRequest& request, const std::string& path);

/// Whether the word names a file, since it has a `/` or a `.`, rather than a known machine.
bool is_machine_file(std::string_view name);
/// A name among the known machines, or the path of a file.
Machine find_machine(const std::string& name);
/// Sorted by name.
std::vector<Machine> known_machines();

/// `12GiB`, or `60%` of the step's peak.
Bytes device_budget(const std::string& text, const Trace& trace);
/// Host and disk as asked for; the device's whole capacity.
Budgets lower_budgets(const PlanningRequest& request, const Machine& machine);

/// The request's options, of those that the planner has if `lenient`.
planning::Options options_for(const planning::Planner& planner, const PlanningRequest& request,
                              bool lenient);

}  // namespace spillway::tools
