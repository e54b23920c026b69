// SPDX-License-Identifier: Apache-2.0
// The bound of short steps: the cheapest way through the states that storages can be in together
// (state_graph.hpp), the links' capacity priced as in price_ascent.hpp. Room is kept at every
// instant and storages are whole, which prices of room do not see.
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
