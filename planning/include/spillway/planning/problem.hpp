// SPDX-License-Identifier: Apache-2.0
// The question to a planner: how to run this step on this machine within these budgets.
//
// The step is in steady state: it repeats, and what the plan leaves behind is what it begins with.
// All planners, the simulator and the lower bound take the same problem.
#pragma once

#include "spillway/machine/machine.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::planning {

/// Refers to trace and machine, which must live longer and be valid; the trace must be timed.
struct Problem {
  const Trace& trace;
  const Machine& machine;
  Budgets budgets{};

  [[nodiscard]] Problem with(Budgets other) const { return {trace, machine, other}; }
};

}  // namespace spillway::planning
