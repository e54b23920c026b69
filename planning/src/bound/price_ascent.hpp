// SPDX-License-Identifier: Apache-2.0
// The bound of all instants and both links at once: prices of room, of the links and of computing
// again, raised and lowered until what every storage would choose at these prices fits.
//
//     instants   0        1        2        3        room has a price at each of them
//     slots      |-- 0 ---|-- 1 ---|-- 2 ---|-- 3 -> each link has a price in each of them
//
// At any prices the sum of what the storages would pay at best, less what room and links yield, is
// a lower bound (the Lagrangian dual of docs/planners/bound.md); so it holds however good or bad
// the prices are. Found by subgradient steps; O(gaps x instants) each.
//
// Source: B. T. Polyak, "Minimization of unsmooth functionals", USSR Computational Mathematics and
// Mathematical Physics 9(3), 1969.
#pragma once

#include <utility>
#include <vector>

#include "bound/window_scan.hpp"

namespace spillway::planning::bound {

/// By slot: ns a ns of a link.
struct LinkPrices {
  std::vector<double> in, out;
};

struct PricedStep {
  double extra_ns = 0;  ///< no step has less time in which no op runs for the first time
  BoundPayment paid{};
  Row instant = 0;       ///< where room is dearest
  bool to_disk = false;  ///< of the boundary
  LinkPrices links{};    ///< in the slots between the beginnings and ends of all ops, or empty
};

/// The nearest prices that are allowed: none below zero, and both together no more than waiting
/// costs where the slot `waits`.
std::pair<double, double> nearest_allowed(double in, double out, bool waits);

/// From the prices that stand for some disjoint windows. Takes no more than some tenths of a
/// second; nothing on traces too long for that.
PricedStep ascend_prices(const CyclicView& view, const Boundary& boundary,
                         const std::vector<BoundWindow>& windows);

}  // namespace spillway::planning::bound
