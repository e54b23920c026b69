// SPDX-License-Identifier: Apache-2.0
#include "fetches.hpp"

#include <algorithm>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::planning::sim {

using residency::EventKind;
using residency::ResidencyState;

void Fetches::push(LinkKind link, const Copy& copy, bool urgent) {
  if (urgent) {
    queues_.push_urgent(link, copy);
  } else {
    queues_.push_in_order(link, copy);
  }
}

void Fetches::queue(ItemIndex index, QueuedFetch fetch) {
  Item& item = holdings_[index];
  if (!fetch.stands()) {
    constexpr std::uint32_t kMost = (std::uint32_t{1} << 30) - 1;
    SPILLWAY_CHECK(queued_ < kMost, "too many fetches for one simulation");
    fetch.order = ++queued_ & kMost;
  }
  item.fetch = fetch;
  const bool from_host = holdings_.state(index) != ResidencyState::kOnDisk;
  const Copy copy{.item = index,
                  .ticket = ++item.ticket,
                  .leg = from_host ? Leg::kIn : Leg::kInFirst,
                  .order = fetch.order};
  push(from_host ? LinkKind::kHostToDevice : LinkKind::kDiskToHost, copy, fetch.urgent);
}

Fetches::Begun Fetches::begin(LinkKind link, const Copy& copy) {
  Item& item = holdings_[copy.item];
  const ResidencyState now = holdings_.state(copy.item);
  if (now == ResidencyState::kDemoting) return Begun::kNot;
  if (now == ResidencyState::kOnDisk && copy.leg == Leg::kIn) {
    // It went on to the disk while it waited: the same turn, on the other link.
    Copy moved = copy;
    moved.leg = Leg::kInFirst;
    moved.ticket = ++item.ticket;
    push(LinkKind::kDiskToHost, moved, item.fetch.urgent);
    return Begun::kWithout;
  }
  const bool holds_room = holdings_.is_here(copy.item) || now == ResidencyState::kFetching;
  const Bytes more = holds_room ? Bytes{} : item.bytes;
  if (!holdings_.has_room(more + owed_to_earlier(link, copy))) return Begun::kNot;
  const bool forgets = std::exchange(item.fetch, {}).forgets;
  keep(item);
  if (now != ResidencyState::kDropped) {
    holdings_.send(copy.item, forgets ? EventKind::kWrite : EventKind::kUse);
    holdings_.note_levels();
  }
  const bool copies = now == ResidencyState::kOnHost || now == ResidencyState::kOnDisk;
  return copies ? Begun::kWithACopy : Begun::kWithout;
}

// Fetches take room in the order in which they were queued, whichever link they come over: else one
// that came late could take what an earlier one, held up by its link, was queued for.
Bytes Fetches::owed_to_earlier(LinkKind link, const Copy& copy) const {
  Bytes owed{};
  if (holdings_[copy.item].fetch.urgent) return owed;
  const LinkKind other =
      link == LinkKind::kHostToDevice ? LinkKind::kDiskToHost : LinkKind::kHostToDevice;
  for (const Copy& ahead : queues_.urgent(other)) {
    if (!is_void(ahead)) owed += holdings_[ahead.item].bytes;
  }
  for (const Copy& earlier : queues_.in_turn(other)) {
    if (earlier.order < copy.order && !is_void(earlier)) owed += holdings_[earlier.item].bytes;
  }
  return owed;
}

Bytes Fetches::owed_to_forgetting() const {
  std::uint32_t last = 0;
  const auto for_each_queued = [this](const auto& visit) {
    for (const LinkKind link : {LinkKind::kHostToDevice, LinkKind::kDiskToHost}) {
      for (const Copy& copy : queues_.in_turn(link)) {
        if (!is_void(copy)) visit(copy);
      }
    }
  };
  for_each_queued([&](const Copy& copy) {
    if (holdings_[copy.item].fetch.forgets) last = std::max(last, copy.order);
  });
  Bytes owed{};
  for_each_queued([&](const Copy& copy) {
    if (copy.order <= last && !holdings_.is_here(copy.item)) owed += holdings_[copy.item].bytes;
  });
  return owed;
}

}  // namespace spillway::planning::sim
