// SPDX-License-Identifier: Apache-2.0
// Every planner, one of each for the life of the program. docs/planners says what each does and
// where it departs from its paper.
#pragma once

#include "spillway/planning/planner.hpp"

namespace spillway::planning {

const Planner& hybrid_planner();
const Planner& swap_critical_path_planner();
const Planner& lms_planner();
const Planner& partitioned_planner();
const Planner& superneurons_planner();
const Planner& chain_recompute_planner();
const Planner& lru_planner();
const Planner& unified_memory_planner();

}  // namespace spillway::planning
