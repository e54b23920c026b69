// SPDX-License-Identifier: Apache-2.0
#include "planner/fitting_pass.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/gap_planner.hpp"
#include "search/settings_search.hpp"

namespace spillway::planning {

FittingPass::FittingPass(const Problem& problem, SweepSettings base, double most_passes)
    : problem_(problem),
      base_(std::move(base)),
      most_settings_(static_cast<std::size_t>(std::max(1.0, most_passes / kMostPassesInVain))) {}

bool FittingPass::operator()(const Budgets& budgets) {
  const Problem problem = problem_.with(budgets);
  const StepModel model(problem);
  std::vector<SweepSettings> all{base_};
  for (SweepSettings& settings : settings_for_less_room(model, base_)) {
    all.push_back(std::move(settings));
  }
  const auto fits = [&](std::size_t which) {
    const SweepResult result = sweep(model, all[which]);
    return result.feasible && checked_plan(problem, model, result.draft, "tried");
  };
  if (fitted_ < all.size() && fits(fitted_)) return true;
  for (std::size_t i = 0; i < std::min(most_settings_, all.size()); ++i) {
    if (i == fitted_ || !fits(i)) continue;
    fitted_ = i;
    return true;
  }
  return false;
}

}  // namespace spillway::planning
