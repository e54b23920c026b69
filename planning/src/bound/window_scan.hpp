// SPDX-License-Identifier: Apache-2.0
// Windows on one side of an instant: what must come in after it, or go out before it.
//
// Every op is an instant of short windows; of windows twice as long every second op, and so on, so
// that all lengths up to the whole step are tried at a cost of O(touches) each.
#pragma once

#include <vector>

#include "bound/cyclic_view.hpp"
#include "spillway/planning/bound/lower_bound.hpp"

namespace spillway::planning::bound {

/// A boundary between tiers that bytes must cross: the device, or device and host together.
struct Boundary {
  std::uint64_t capacity = 0;  ///< of the tiers above it
  LinkKind in = LinkKind::kHostToDevice;
  LinkKind out = LinkKind::kDeviceToHost;
  bool to_disk = false;  ///< above it are device and host
};

/// Appends windows with a positive excess, `first` and `last` counted from the start of the step.
void scan_windows_after(const CyclicView& view, const Boundary& boundary,
                        std::vector<BoundWindow>& windows);
void scan_windows_before(const CyclicView& view, const Boundary& boundary,
                         std::vector<BoundWindow>& windows);

/// Windows on both sides of the instants where most is away.
void scan_windows_around(const CyclicView& view, const Boundary& boundary,
                         std::vector<BoundWindow>& windows);

/// How many instants a length may have within the time that is meant for scanning: 1 for one every
/// half length, 2 for every quarter, up to 16.
Position instants_per_half_length(const CyclicView& view);

}  // namespace spillway::planning::bound
