// SPDX-License-Identifier: Apache-2.0
// What leaves the device, and the host for the disk, as actions of the plan ask for it.
//
//     evict   device --> host, or disk, through the host where it has room
//     demote  host ----> disk
//     drop    any -----> nowhere
//
// An item for which the slower tier has no room waits in line, and those behind it with it: the
// plan has room for all in their order. What is asked for while a copy is in flight is done when
// that has ended: settle().
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "copy_queues.hpp"
#include "holdings.hpp"
#include "host_passage.hpp"

namespace spillway::planning::sim {

class Departures {
 public:
  /// Refers to all of them.
  Departures(const Problem& problem, Holdings& holdings, CopyQueues& queues)
      : problem_(problem), holdings_(holdings), queues_(queues), passage_(holdings) {}

  void evict(ItemIndex item, Tier tier);
  void demote(ItemIndex item);
  /// False if the item has to wait for the end of a copy.
  bool drop(ItemIndex item);
  /// A copy of the item has ended: what was asked for meanwhile is done.
  void settle(ItemIndex item);

  /// The item goes no further than it is.
  void stay(Item& item) { passage_.stay(item); }
  /// It is not waited for any more, neither to come nor to leave.
  void withdraw(Item& item) {
    item.fetch = {};
    item.pending = {};
    passage_.stay(item);
  }
  /// A copy or a queued one, or an eviction that waits for room.
  [[nodiscard]] bool is_moving(ItemIndex item) const;

  /// Lets go those in line for which there is room now.
  void retry() {
    if (!in_line_.empty()) retry_in_line();
  }
  [[nodiscard]] bool none_in_line() const { return in_line_.empty(); }
  /// The first eviction that waits for room, and the tier.
  [[nodiscard]] std::optional<std::pair<ItemIndex, Tier>> first_in_line() const;

 private:
  void leave(ItemIndex item, Tier tier);
  bool try_leave(ItemIndex item);
  void start_demotion(ItemIndex item);
  bool try_demote(ItemIndex item);
  void retry_in_line();
  bool clear_passage();
  bool leaves_passage(ItemIndex item);
  [[nodiscard]] Bytes room(Tier tier) const;

  const Problem& problem_;
  Holdings& holdings_;
  CopyQueues& queues_;
  HostPassage passage_;
  std::deque<ItemIndex> in_line_;  // void where the item no longer waits
};

}  // namespace spillway::planning::sim
