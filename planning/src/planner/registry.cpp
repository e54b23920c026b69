// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/registry.hpp"

#include <fmt/format.h>

#include <vector>

#include "planner/planners.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/nearest.hpp"

namespace spillway::planning {

std::span<const Planner* const> planners() {
  static const std::vector<const Planner*> all{
      &hybrid_planner(),      &swap_critical_path_planner(), &lms_planner(),
      &partitioned_planner(), &superneurons_planner(),       &chain_recompute_planner(),
      &lru_planner(),         &unified_memory_planner()};
  return all;
}

const Planner& planner_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Planner* planner : planners()) {
    if (planner->name() == name) return *planner;
    names.push_back(planner->name());
  }
  throw UserError(fmt::format("There is no planner \"{}\".{} Planners: {}.", name,
                              suggestion(name, names), fmt::join(names, ", ")));
}

}  // namespace spillway::planning
