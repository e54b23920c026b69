// SPDX-License-Identifier: Apache-2.0
// `spillway plan`, `simulate`, `compare`, `explain` and `what-if`.
//
// Each reads files, computes on the calling thread and returns what to print. Files that it was
// asked to write are written. Throws UserError for mistakes in flags and files.
#pragma once

#include <string>

#include "request/planning_request.hpp"

namespace spillway::tools {

/// Text for standard output, and the exit status: 0, or 1 where no plan fits or a plan fails.
struct Answer {
  std::string text;
  int status = 0;
};
inline constexpr int kNoPlanFits = 1;

Answer plan_answer(const PlanningRequest& request);
Answer simulate_answer(const PlanningRequest& request);
Answer compare_answer(const PlanningRequest& request);
Answer explain_answer(const PlanningRequest& request);
Answer what_if_answer(const PlanningRequest& request);

Answer planning_answer(const PlanningRequest& request);

}  // namespace spillway::tools
