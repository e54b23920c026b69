// SPDX-License-Identifier: Apache-2.0
// `spillway compare`: planners by budgets. Reads the trace and computes on the calling thread.
// Throws UserError for mistakes in flags and files. The answer owns what it holds.
#pragma once

#include <optional>
#include <vector>

#include "plan/pareto_front.hpp"
#include "plan/planning_inputs.hpp"
#include "request/planning_request.hpp"
#include "spillway/planning/bound/lower_bound.hpp"
#include "spillway/planning/planner.hpp"

namespace spillway::tools {

struct ComparisonAnswer {
  struct Cell {
    const planning::Planner* planner = nullptr;
    std::optional<TimeNs> step_ns{};  ///< nothing: no plan fits
    std::optional<Bytes> smallest_budget{};
    bool on_front = false;
  };
  struct Column {
    Bytes budget{};  ///< as stated, with what is left free for workspace
    /// The bound of the plans that keep to it; none where no planner has one.
    std::optional<planning::LowerBound> bound{};
    std::vector<Cell> cells{};  ///< by planner
  };

  PlanningInputs inputs;
  TimeNs compute_ns = 0;
  std::vector<Column> columns;
  std::vector<FrontPoint> points;  ///< of all cells with a plan, column by column
};

ComparisonAnswer compare_planners(const PlanningRequest& request);

}  // namespace spillway::tools
