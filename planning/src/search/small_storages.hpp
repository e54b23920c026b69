// SPDX-License-Identifier: Apache-2.0
// Finds the storages that are so small that all of them together may stay on the device.
//
// A copy of little takes a link's latency and makes no room to speak of: where a network has
// hundreds of vectors, copying them takes longer than copying all of its activations. Costs a few
// scans of the storages.
#pragma once

#include <cstdint>

#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning::pass {

/// The largest size, in bytes, such that beside every op all storages of up to this size take no
/// more than `share`, up to 1, of the room that the op leaves. 0 if there is none.
std::uint64_t size_that_may_stay(const StepModel& model, double share);

}  // namespace spillway::planning::pass
