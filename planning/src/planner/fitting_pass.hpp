// SPDX-License-Identifier: Apache-2.0
// Tells whether hybrid has a plan within given budgets, for many of them.
#pragma once

#include <cstddef>

#include "pass/sweep.hpp"
#include "spillway/planning/planner.hpp"

namespace spillway::planning {

/// Tries some of the passes that hybrid makes where room is short, that which fitted last first.
/// Their plans are validated and simulated, so that hybrid finds a plan wherever one of them fits;
/// it makes more passes, and may have one where none of these does.
class FittingPass {
 public:
  /// Refers to the problem. `most_passes`: for one answer, estimated; one setting is tried anyway.
  FittingPass(const Problem& problem, SweepSettings base, double most_passes);

  bool operator()(const Budgets& budgets);

 private:
  const Problem& problem_;
  SweepSettings base_;
  std::size_t most_settings_;
  std::size_t fitted_ = 0;  // which setting did last
};

}  // namespace spillway::planning
