// SPDX-License-Identifier: Apache-2.0
#include "pass/next_uses.hpp"

namespace spillway::planning::pass {

Row NextUses::after(Row storage, Row touch, Row op) const {
  Row next = kNoRow;
  if (touch == kNoRow) {
    const Row first = table_.first_touch(storage);
    if (first != kNoRow) next = table_.op_of(first);
  } else {
    const GapEnd end = end_of_gap(table_, touch);
    if (end.touch != kNoRow) next = table_.op_of(end.touch) + (end.wraps ? table_.ops() : 0);
  }
  const auto pledged = pledges_.find(storage);
  if (pledged != pledges_.end()) {
    for (const Row at : pledged->second) {
      if ((op == kNoRow || at > op) && at < next) next = at;
    }
  }
  return next;
}

}  // namespace spillway::planning::pass
