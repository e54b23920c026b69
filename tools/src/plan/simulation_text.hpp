// SPDX-License-Identifier: Apache-2.0
// A simulation's results, as lines of at most 80 columns, as JSON and as a trace for
// ui.perfetto.dev. Pure functions; thread-safe.
#pragma once

#include <string>

#include "spillway/planning/bound/lower_bound.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/planning/sim/simulator.hpp"
#include "text/output_text.hpp"

namespace spillway::tools {

/// `  step        12.3 ms, 3 % over its 11.9 ms of computing` and what follows.
std::string report_lines(const planning::SimulationReport& report,
                         const planning::Problem& problem);
std::string failure_lines(const planning::SimulationFailure& failure, const Trace& trace);
/// `budgets`: as the person stated them.
std::string infeasible_lines(const planning::Infeasible& answer, const Trace& trace,
                             const Budgets& budgets);

/// The members of SimulationReport by their names; the timeline if `timeline`.
Json report_json(const planning::SimulationReport& report, bool timeline);
Json failure_json(const planning::SimulationFailure& failure);
Json infeasible_json(const planning::Infeasible& answer);
Json budgets_json(const Budgets& budgets);

/// `step_ns`, `compute_ns`, `extra_ns` by cause, and `binds`: a cause, or `computing` where the ops
/// alone bind.
Json bound_json(const planning::LowerBound& bound);

/// Trace Event Format, which Perfetto and chrome://tracing open: a track for computing and one for
/// each link, and a counter for what each tier holds.
std::string perfetto_text(const planning::SimulationReport& report, const Trace& trace);

}  // namespace spillway::tools
