// SPDX-License-Identifier: Apache-2.0
// The bound of short steps: the cheapest way through the states that storages can be in together
// (state_graph.hpp), the links' capacity priced as in price_ascent.hpp. Room is kept at every
// instant and storages are whole, which prices of room do not see.
//
// **The bound.** For prices `x(k)`, `y(k)` of the links as in price_ascent.hpp, with `x(k) + y(k)
// <= 1` in slots with an `e`, a transition costs
//
//     x(k) (jobs in) + y(k) (jobs out) + (1 - x(k) - y(k)) waits + cost of its other copies,
//
// where each other copy costs the cheapest price of the slots in which it can lie. Let `P` be
// the cost of the cheapest way through the states of one step. Then
//
//     sum of e  >=  P  -  sum over k of (x(k) + y(k)) D(k)
//
// *Proof.* Let the plan copy for the time `I` inwards and `O` outwards in slot k, the jobs
// included. `I` and `O` are at most `D(k) + e(k)`. Where `e(k)` is not zero by definition, `D(k)
// = 0` and `e(k) >= waits`. So
//
//     e(k)  >=  x(k) (I - D(k)) + y(k) (O - D(k)) + (1 - x(k) - y(k)) waits
//
// there, and `0 >= x(k) (I - D(k)) + y(k) (O - D(k))` in the other slots. Summed over all slots,
// the right side is at least the cost of the plan's way, and so of the cheapest, less the sum of
// `(x + y) D`, because a copy that is no job lies somewhere in its slots. []
//
// A storage that outlives the step may be anywhere at its end and have a copy; the bound charges
// nothing for that. A storage that nothing writes always has a copy.
//
// Any prices give a bound: the Lagrangian dual in the links alone. O(transitions) each.
#pragma once

#include "bound/price_ascent.hpp"

namespace spillway::planning::bound {

/// From the best prices that price_ascent found, if they are of all instants. Nothing on steps with
/// too many states.
PricedStep ascend_state_prices(const CyclicView& view, const Boundary& boundary,
                               const LinkPrices& start);

}  // namespace spillway::planning::bound
