// SPDX-License-Identifier: Apache-2.0
// The answers to `spillway plan`, `simulate`, `compare`, `explain` and `what-if`.
//
//     request --> planning_answer: reads, computes --> value --> answer_text, answer_json: print
//
// A command reads files, computes on the calling thread and writes the files that it was asked to
// write; it prints nothing but its progress. The printers are pure.
#pragma once

#include <string>
#include <variant>

#include "explain/explain_command.hpp"
#include "plan/compare_command.hpp"
#include "plan/plan_command.hpp"
#include "plan/what_if_batch.hpp"
#include "plan/what_if_command.hpp"
#include "request/planning_request.hpp"

namespace spillway::tools {

using PlanningAnswer =
    std::variant<PlanAnswer, NoPlanAnswer, SimulationAnswer, FailureAnswer, ComparisonAnswer,
                 ExplanationAnswer, SmallestBudgetAnswer, FitsAnswer, LargestBatchAnswer>;

/// Throws UserError for mistakes in flags and files.
PlanningAnswer planning_answer(const PlanningRequest& request);

inline constexpr int kNoPlanFits = 1;
/// The exit status: 0, or kNoPlanFits where no plan fits or a plan fails.
int status_of(const PlanningAnswer& answer);

/// For people: lines of at most 80 columns, for standard output.
std::string answer_text(const PlanningAnswer& answer);
/// For programs, likewise.
std::string answer_json(const PlanningAnswer& answer);

}  // namespace spillway::tools
