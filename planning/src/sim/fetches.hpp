// SPDX-License-Identifier: Apache-2.0
// The fetches that are queued, and the device's room that is owed to them.
//
//     queued        in turn:  a  b  c ...     over both links that lead in
//                   urgent:   what computing waits for, ahead of all
//     begun         when its link is free and the device has room, after all that is owed
//
// A fetch takes room when it begins. It may find that its storage is still here: then it takes
// none, and nothing is copied. A queued copy whose fetch was withdrawn, or queued anew, is void.
#pragma once

#include <cstdint>

#include "copy_queues.hpp"
#include "holdings.hpp"

namespace spillway::planning::sim {

class Fetches {
 public:
  enum class Begun : std::uint8_t { kNot, kWithACopy, kWithout };

  /// Refers to both.
  Fetches(Holdings& holdings, CopyQueues& queues) : holdings_(holdings), queues_(queues) {}

  /// In its turn, or last if it has none. What was queued of the item is void.
  void queue(ItemIndex item, QueuedFetch fetch);
  /// Begins the fetch of the copy that is next on the link, if there is room.
  Begun begin(LinkKind link, const Copy& copy);

  /// Whether it is of a fetch that is queued no more.
  [[nodiscard]] bool is_void(const Copy& copy) const {
    if (!is_fetch(copy)) return false;
    const Item& item = holdings_[copy.item];
    return !item.fetch.stands() || item.ticket != copy.ticket;
  }
  /// The bytes of the queued fetches up to the last that frees some on a slower tier by forgetting.
  [[nodiscard]] Bytes owed_to_forgetting() const;

 private:
  [[nodiscard]] Bytes owed_to_earlier(LinkKind link, const Copy& copy) const;
  void push(LinkKind link, const Copy& copy, bool urgent);

  Holdings& holdings_;
  CopyQueues& queues_;
  std::uint32_t queued_ = 0;  // that were given a turn
};

}  // namespace spillway::planning::sim
