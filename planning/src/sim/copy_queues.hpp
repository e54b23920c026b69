// SPDX-License-Identifier: Apache-2.0
// The four links on the virtual clock: what each carries now, and what waits for it.
//
//     waiting                                    carried
//     second legs: their room is theirs  ---+
//     urgent: what computing waits for  ----+--> one copy, until `end`
//     in turn: all else, oldest first  -----+
//
// A second leg never waits behind a copy that waits for room: what it holds may be that room.
//
// The queues know nothing of memory: whether the copy at the head may start is the caller's matter.
// An entry can be taken back by its ticket; it is then passed over when it comes to the head.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>

#include "spillway/base/ids.hpp"
#include "spillway/machine/machine.hpp"

namespace spillway::planning::sim {

/// The meaning of the end of a copy over a link.
enum class Leg : std::uint8_t {
  kOut,        ///< device-to-host, and the host keeps it
  kOutFirst,   ///< device-to-host, on its way to the disk without room on the host
  kOutSecond,  ///< host-to-disk, of the same
  kDemote,     ///< host-to-disk
  kIn,         ///< host-to-device; room on the device is needed to start
  kInFirst,    ///< disk-to-host, on its way to the device; likewise
  kInSecond,   ///< host-to-device, of the same: the room is held already
};

struct Copy {
  std::uint32_t item = 0;    ///< of Holdings
  std::uint32_t ticket = 0;  ///< of the item when queued; entries with an old one are void
  Leg leg = Leg::kOut;
  std::uint32_t order = 0;  ///< of fetches: when they were queued, over both links that lead in
};
/// Whether it needs room on the device to start.
constexpr bool is_fetch(const Copy& copy) {
  return copy.leg == Leg::kIn || copy.leg == Leg::kInFirst;
}

class CopyQueues {
 public:
  static constexpr TimeNs kNever = std::numeric_limits<TimeNs>::max();

  struct Carried {
    Copy copy;
    TimeNs begin = 0;
    TimeNs end = kNever;
  };

  void push(LinkKind link, Copy copy) {
    lanes_[index_of(link)].in_turn.push_back(copy);
    ++waiting_;
  }
  void push_urgent(LinkKind link, Copy copy) {
    lanes_[index_of(link)].urgent.push_back(copy);
    ++waiting_;
  }
  /// The second leg of a copy into the device.
  void push_second(LinkKind link, Copy copy) {
    lanes_[index_of(link)].second.push_back(copy);
    ++waiting_;
  }

  /// Before those that were queued later.
  void push_in_order(LinkKind link, Copy copy) {
    std::deque<Copy>& queue = lanes_[index_of(link)].in_turn;
    ++waiting_;
    if (queue.empty() || queue.back().order < copy.order) return queue.push_back(copy);
    const auto later = std::find_if(queue.begin(), queue.end(),
                                    [&](const Copy& other) { return other.order > copy.order; });
    queue.insert(later, copy);
  }

  /// Whether no link has a copy that waits. Void copies count as such until next() removes them.
  [[nodiscard]] bool none_waits() const { return waiting_ == 0; }

  /// The copy that goes next if the link is free now; nothing if it is not or none waits. `is_void`
  /// tells of a copy that was taken back; such copies are removed.
  template <typename IsVoid>
  [[nodiscard]] std::optional<Copy> next(LinkKind link, bool urgent_only, const IsVoid& is_void) {
    Lane& lane = lanes_[index_of(link)];
    if (lane.carried.end != kNever) return std::nullopt;
    for (std::deque<Copy>* queue : {&lane.second, &lane.urgent, &lane.in_turn}) {
      while (!queue->empty() && is_void(queue->front())) pop(*queue);
      if (!queue->empty() && (queue != &lane.in_turn || !urgent_only)) return queue->front();
    }
    return std::nullopt;
  }

  /// Starts what next() returned last for the link.
  void start_next(LinkKind link, TimeNs now, TimeNs duration) {
    Lane& lane = lanes_[index_of(link)];
    std::deque<Copy>& queue = !lane.second.empty()   ? lane.second
                              : !lane.urgent.empty() ? lane.urgent
                                                     : lane.in_turn;
    lane.carried = {queue.front(), now, now + duration};
    pop(queue);
  }

  /// The copies that wait ahead of their turn, void copies included.
  [[nodiscard]] const std::deque<Copy>& urgent(LinkKind link) const {
    return lanes_[index_of(link)].urgent;
  }
  /// The copies that wait their turn, likewise.
  [[nodiscard]] const std::deque<Copy>& in_turn(LinkKind link) const {
    return lanes_[index_of(link)].in_turn;
  }

  /// The link whose copy ends first, if any carries one.
  [[nodiscard]] std::optional<LinkKind> first_to_end() const;
  [[nodiscard]] TimeNs end_of(LinkKind link) const { return lanes_[index_of(link)].carried.end; }

  /// Frees the link and returns what it carried.
  Carried finish(LinkKind link);

 private:
  struct Lane {
    std::deque<Copy> second;
    std::deque<Copy> urgent;
    std::deque<Copy> in_turn;
    Carried carried;
  };

  void pop(std::deque<Copy>& queue) {
    queue.pop_front();
    --waiting_;
  }

  std::array<Lane, kLinkCount> lanes_;
  std::size_t waiting_ = 0;  // in all queues
};

}  // namespace spillway::planning::sim
