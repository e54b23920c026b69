// SPDX-License-Identifier: Apache-2.0
// Says what became of a run: as JSON for programs, in sentences for people. Pure functions of the
// figures. docs/tensorflow.md ("The numbers") says what each is.
#pragma once

#include <cstdint>
#include <string>

#include "plan_loop.hpp"
#include "rewritten_graphs.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/settings.hpp"
#include "status_reporter.hpp"
#include "swap_table.hpp"
#include "variables.hpp"

namespace spillway::tf {

struct FinalFigures {
  runtime::Mode mode{};
  TimeNs elapsed = 0;
  RunFigures run;
  SwapTableState table;
  VariablesUsage variables;
  PlanState plan;
  GraphCounts graphs;
};

std::string to_json(const FinalFigures& figures);

/// Lines, each with its end.
std::string to_summary(const FinalFigures& figures);

}  // namespace spillway::tf
