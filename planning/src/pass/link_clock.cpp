// SPDX-License-Identifier: Apache-2.0
#include "pass/link_clock.hpp"

#include <algorithm>

namespace spillway::planning {

LinkClock::Slot LinkClock::look(double ready, double duration) const {
  auto piece = idle_.upper_bound(ready);
  if (piece != idle_.begin()) --piece;
  Slot slot{-1, ready};
  for (int looked = 0; piece != idle_.end(); ++piece) {
    const double begin = std::max(piece->first, ready);
    if (begin >= piece->second) continue;
    if (slot.begin < 0) slot.begin = begin;
    const double there = piece->second - begin;
    if (there >= duration || ++looked == kMostPieces) return {slot.begin, begin + duration};
    duration -= there;
  }
  return {slot.begin, slot.end + duration};  // not reached: the last piece never ends
}

LinkClock::Slot LinkClock::take(double ready, double duration) {
  auto piece = idle_.upper_bound(ready);
  if (piece != idle_.begin()) --piece;
  Slot slot{-1, ready};
  while (piece != idle_.end()) {
    const auto [from, to] = *piece;
    const double begin = std::max(from, ready);
    if (begin >= to) {
      ++piece;
      continue;
    }
    if (slot.begin < 0) slot.begin = begin;
    const double taken = std::min(duration, to - begin);
    piece = idle_.erase(piece);
    if (from < begin) idle_[from] = begin;
    if (begin + taken < to) piece = idle_.insert_or_assign(begin + taken, to).first;
    duration -= taken;
    slot.end = begin + taken;
    if (duration <= 0) break;
  }
  return slot;
}

}  // namespace spillway::planning
