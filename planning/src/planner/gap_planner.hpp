// SPDX-License-Identifier: Apache-2.0
// The parts that planners share which choose gaps by a rule and let no pass over the step decide:
// counting the device's bytes under a draft, and turning a draft that fits into an outcome.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "draft/draft.hpp"
#include "planner/shortage.hpp"
#include "spillway/planning/planner.hpp"

namespace spillway::planning {

/// Bytes on the device per op where all stays.
std::vector<std::int64_t> bytes_per_op(const StepModel& model);

/// The ops between which a choice's storage is away: one stretch, or two where it wraps.
struct AwayRange {
  Row first = 0;
  Row last = 0;
};
std::vector<AwayRange> away_ranges(const AccessTable& table, Row touch, const GapChoice& choice);

/// Bytes on the device per op under a draft without recomputations; what is fetched counts from the
/// op before which its copy is queued.
std::vector<std::int64_t> bytes_per_op(const StepModel& model, const Draft& draft);
bool fits(const StepModel& model, const Draft& draft);

/// A plan from a draft if it fits by counting and in the simulator.
std::optional<Plan> checked_plan(const Problem& problem, const StepModel& model, const Draft& draft,
                                 const std::string& planner);

/// `hybrid` or `lms threshold=4`.
std::string label_of(const Planner& planner, const Options& options);

/// `attempt` for the problem; where it has none, and is asked to explain, the reason, found by
/// giving it more memory.
using Attempt = std::function<std::optional<Plan>(const Problem&, const StepModel&)>;
PlanOutcome outcome_of(const Problem& problem, const PlanningContext& context,
                       const Attempt& attempt);

/// Whether a storage is what the papers move: made and used within the step, not a parameter.
bool is_feature_map(const Problem& problem, const AccessTable& table, Row storage);

}  // namespace spillway::planning
