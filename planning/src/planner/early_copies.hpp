// SPDX-License-Identifier: Apache-2.0
// A draft's copies made as early as there is room, by counting bytes per op: what leaves goes right
// behind its last use, what comes back is queued ahead of its next.
//
//     on demand     [use]  ....  out|      ......      |in [use]
//     early         [use]out ......       ......    in      [use]
//
// O(touches x how far ahead).
#pragma once

#include "draft/draft.hpp"

namespace spillway::planning {

/// For drafts without recomputations. A copy in is queued where it is through in time if each takes
/// `reach` times as long as alone, later where there is no room before.
Draft with_early_copies(const StepModel& model, const Draft& draft, double reach);

}  // namespace spillway::planning
