// SPDX-License-Identifier: Apache-2.0
// The idle times of a link: copies may be placed into the past, as early as they could have begun.
//
//     busy   |####|      |######|   |##|
//     idle        |------|      |---|  |-------- ... for ever
//
// Of two copies that could use an idle stretch, the one that was ready earlier should: one that
// becomes ready later cannot use what lies before. So a copy takes idle time from its earliest
// beginning on. A copy may be cut into pieces by busy stretches, which stands for the queue in
// which the others wait for it. Units: ns. O(log n + pieces) each.
#pragma once

#include <map>

namespace spillway::planning {

class LinkClock {
 public:
  struct Slot {
    double begin = 0;
    double end = 0;
  };

  LinkClock() { idle_[0] = kForEver; }

  /// When a copy that is ready at `ready` would begin and end. Looks at no more than kMostPieces
  /// pieces; what is left over counts as if the link were idle from there on.
  [[nodiscard]] Slot look(double ready, double duration) const;
  Slot take(double ready, double duration);

 private:
  static constexpr double kForEver = 1e300;
  static constexpr int kMostPieces = 32;

  std::map<double, double> idle_;  // begin to end
};

}  // namespace spillway::planning
