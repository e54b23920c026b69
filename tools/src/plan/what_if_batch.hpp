// SPDX-License-Identifier: Apache-2.0
// `spillway what-if --batch A:B -- PROGRAM`: the largest size that a plan fits for, found by
// recording the program without memory at sizes chosen by bisection, and planning each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/planning_inputs.hpp"
#include "request/planning_request.hpp"

namespace spillway::tools {

/// Stands for the size in the words of the program.
inline constexpr const char* kBatchPlaceholder = "{batch}";

struct LargestBatchAnswer {
  /// The step at one size.
  struct Try {
    std::uint64_t batch = 0;
    Bytes budget{};
    Bytes peak{};
    Bytes margin{};  ///< of the budget, left free for workspace
    bool workspace_known = true;
    TimeNs compute_ns = 0;
    std::optional<TimeNs> step_ns{};  ///< nothing: no plan fits
    Bytes short_by{};                 ///< of device memory, where none fits
  };

  PlanningInputs inputs;  ///< of the first size tried
  std::optional<Try> fitting;
  std::optional<Try> failing;  ///< the next larger one that was tried
  std::vector<Try> tries;      ///< in order, before the plan of the largest is improved
};

/// The program's words with the size in place of every placeholder.
std::vector<std::string> program_at(const std::vector<std::string>& program, std::uint64_t batch);

/// A step that fits at one size is taken to fit at all smaller ones. Runs the program; writes to a
/// temporary folder only. Throws UserError where it fails.
LargestBatchAnswer largest_batch(const PlanningRequest& request);

}  // namespace spillway::tools
