// SPDX-License-Identifier: Apache-2.0
// Says what became of a run: as JSON for programs, in sentences for people. Pure functions of the
// figures. docs/tensorflow.md ("The numbers") says what each is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

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

/// Lines, each with its end, for the summary of `spillway run` too: graphs that are left as they
/// were, and why; variables that stayed; what was recomputed; the plan.
std::string to_notes(const FinalFigures& figures);
/// Those on graphs.
std::string describe(const std::map<std::string, LeftGraphs>& left);
/// Says of each line who says it.
std::string with_our_name(std::string_view lines);

/// Lines, each with its end.
std::string to_summary(const FinalFigures& figures);

}  // namespace spillway::tf
