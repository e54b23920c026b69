// SPDX-License-Identifier: Apache-2.0
// Paging on demand, as a draft: an op that lacks a storage fetches it, and what makes room for it
// leaves just before. So does the runtime in steps without a plan, and so do pages of unified
// memory.
//
// The step is gone through until it begins with the same storages on the device as the time before:
// a step in steady state. Where it does not settle, the last pass counts.
//
// Victims are those of residency/victims.hpp, furthest next use first (Belady 1966) or least
// recently used first, taken one by one until the rest fits.
#pragma once

#include <optional>

#include "draft/draft.hpp"

namespace spillway::planning {

enum class VictimOrder : std::uint8_t { kFurthestNextUse, kLeastRecentlyUsed };

/// Returns nothing where an op alone does not fit, or what is away does not fit below the device.
std::optional<Draft> page_on_demand(const StepModel& model, VictimOrder order);

}  // namespace spillway::planning
