// SPDX-License-Identifier: Apache-2.0
// A step time that no plan can beat, and what stands in the way.
//
//        window of copies out      instant        window of copies in
//     |<------- D_out ------->|       p       |<------- D_in ------->|
//                                     ^
//              here the device cannot hold all that is alive: V bytes are away
//
// What is away at an instant and used again within a window must come in over a link within it, or
// be computed again, and what was written within a window before it must have gone out. Where the
// links need more time than the ops of the windows take, computing stalls. The demands of disjoint
// windows add up. Statement and proof: docs/planners/bound.md.
//
// Stronger where many instants matter: prices of room and links at all of them at once
// (bound/price_ascent.hpp), begun from the best windows. The larger of the two is the bound.
//
// Either is the value of a feasible point of the dual of a linear relaxation, so that it holds
// however well or badly windows and prices were chosen. About O(a log a) for a touches of storages,
// and some tenths of a second for prices.
//
// Source: windows are the dual of the paging and prefetching programs of Albers, Garg and Leonardi
// ("Minimizing stall time in single and parallel disk systems", JACM 47(6), 2000); prices per byte
// are those of the fractional knapsack (POFO, Beaumont et al. 2021).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning {

/// What the excess of a window over its ops' own time is owed to.
enum class BoundCause : std::uint8_t {
  kFetching,  ///< device: copies in, or computing again
  kEvicting,  ///< device: copies out
  kBoth,      ///< device: out before and in after one instant
  kFromDisk,  ///< device and host together are too small: copies from disk
  kToDisk,    ///< the same, copies to disk
};
inline constexpr std::size_t kBoundCauseCount = 5;
std::string_view to_string(BoundCause cause);

/// Between op `first` and op `last` (both counted from the start of the step, past its end where
/// the window wraps) at least `extra_ns` pass in which no op of the program runs.
struct BoundWindow {
  Row first = 0;
  Row instant = 0;
  Row last = 0;
  double extra_ns = 0;
  BoundCause cause = BoundCause::kFetching;
  double link_share = 1;  ///< of a nanosecond's wait that copies in pay; computing again the rest
  double room_price = 0;  ///< ns a byte at the instant
};

struct LowerBound {
  TimeNs step_ns = 0;     ///< no plan is faster
  TimeNs compute_ns = 0;  ///< sum of the ops' shortest durations; step_ns is never less
  std::array<double, kBoundCauseCount> extra_ns{};  ///< by BoundCause
  std::vector<BoundWindow> windows;                 ///< disjoint, in order
};

/// `kWindows` leaves the prices out, which take most of the time and are often stronger.
enum class BoundEffort : std::uint8_t { kFull, kWindows };
LowerBound lower_bound(const StepModel& model, BoundEffort effort = BoundEffort::kFull);

}  // namespace spillway::planning
