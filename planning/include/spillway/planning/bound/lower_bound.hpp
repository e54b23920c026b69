// SPDX-License-Identifier: Apache-2.0
// A step time that no plan can beat, and what stands in the way.
//
//        window of copies out      instant        window of copies in
//     |<------- D_out ------->|       p       |<------- D_in ------->|
//                                     ^
//              here the device cannot hold all that is alive: V bytes are away
//
// A storage that is away at an instant and used again within a window must come in over a link
// within it, or be computed again, and what was written within a window before it must have gone
// out. Where the links need more time than the ops of the windows take, computing stalls. The
// demands of disjoint windows add up. Statement and proof: docs/planners/bound.md.
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
#include <optional>
#include <string_view>
#include <vector>

#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning {

/// The cause of the step's time beyond that of its ops, where room is short: a link that is too
/// slow for what must cross it, or the device, which computes what it had computed before.
enum class BoundCause : std::uint8_t {
  kFetching,     ///< copies to the device
  kEvicting,     ///< copies from the device
  kRecomputing,  ///< ops run again, since that takes less than copies would
  kFromDisk,     ///< device and host together are too small: copies from disk
  kToDisk,       ///< the same, copies to disk
};
inline constexpr std::size_t kBoundCauseCount = 5;
/// `fetching`, `evicting`, `recomputing`, `from disk`, `to disk`
std::string_view to_string(BoundCause cause);

enum class WindowSide : std::uint8_t { kAfter, kBefore, kAround };  ///< of its instant

/// The payment of storages within a window or a step at the prices of the bound, in ns. Room and
/// the ops' own time are deducted from the sum, so that the excess is less and is shared out in
/// proportion.
struct BoundPayment {
  double in = 0, out = 0, again = 0;  ///< copies in, copies out, ops run again
};

/// Between op `first` and op `last` (both counted from the start of the step, past its end where
/// the window wraps) at least `extra_ns` pass in which no op of the program runs.
struct BoundWindow {
  Row first = 0;
  Row instant = 0;
  Row last = 0;
  double extra_ns = 0;
  WindowSide side = WindowSide::kAfter;
  bool to_disk = false;  ///< of device and host together, not of the device alone
  BoundPayment paid{};
  double link_share = 1;  ///< of a nanosecond's wait that copies in pay; computing again the rest
  double room_price = 0;  ///< ns a byte at the instant
};

/// The op at which the room is short that the bound owes most to.
struct BoundRoom {
  Row op = 0;
  std::uint64_t bytes_alive = 0;  ///< while it runs, with its smallest workspace
  std::uint64_t budget = 0;       ///< of the device; of device and host where a disk's link binds
};

struct LowerBound {
  TimeNs step_ns = 0;     ///< no plan is faster
  TimeNs compute_ns = 0;  ///< sum of the ops' shortest durations; step_ns is never less
  std::array<double, kBoundCauseCount>
      extra_ns{};                     ///< by BoundCause; about step_ns - compute_ns in all
  std::optional<BoundCause> binds{};  ///< the cause of most of it; nothing if none is
  BoundRoom room{};                   ///< if anything binds
  std::vector<BoundWindow> windows;   ///< disjoint, in order
};

/// `kWindows` leaves the prices out, which take most of the time and are often stronger.
enum class BoundEffort : std::uint8_t { kFull, kWindows };
LowerBound lower_bound(const StepModel& model, BoundEffort effort = BoundEffort::kFull);

}  // namespace spillway::planning
