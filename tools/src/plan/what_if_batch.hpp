// SPDX-License-Identifier: Apache-2.0
// `spillway what-if --batch A:B -- PROGRAM`: the largest size that a plan fits for, found by
// recording the program without memory at sizes chosen by bisection, and planning each.
#pragma once

#include <string>
#include <vector>

#include "plan/planning_commands.hpp"

namespace spillway::tools {

/// Stands for the size in the words of the program.
inline constexpr const char* kBatchPlaceholder = "{batch}";

/// The program's words with the size in place of every placeholder.
std::vector<std::string> program_at(const std::vector<std::string>& program, std::uint64_t batch);

/// A step that fits at one size is taken to fit at all smaller ones. Status 1 where not even the
/// smallest fits. Runs the program; writes to a temporary folder only. Throws UserError where it
/// fails.
Answer largest_batch(const PlanningRequest& request);

}  // namespace spillway::tools
