// SPDX-License-Identifier: Apache-2.0
#include "copy_traffic.hpp"

#include <algorithm>
#include <optional>

namespace spillway::planning::sim {

void CopyTraffic::begin_waiting() {
  for (const LinkKind link : kLinks) {
    const bool fills = link == LinkKind::kHostToDevice || link == LinkKind::kDiskToHost;
    std::optional<Copy> copy;
    do {
      const bool held_back = fills && urgent_only_ && owed_to_forgetting() == Bytes{};
      copy = parts_.queues.next(link, held_back,
                                [this](const Copy& next) { return parts_.fetches.is_void(next); });
    } while (copy && begin(link, *copy));
  }
}

/// False if it has to wait at the head of its queue.
bool CopyTraffic::begin(LinkKind link, const Copy& copy) {
  if (is_fetch(copy)) {
    const auto begun = parts_.fetches.begin(link, copy);
    if (begun != Fetches::Begun::kWithACopy) return begun == Fetches::Begun::kWithout;
  }
  const Item& item = parts_.holdings[copy.item];
  const TimeNs now = parts_.holdings.now();
  const TimeNs time = duration(link, copy);
  parts_.queues.start_next(link, now, time);
  measurements_.note_copy(link, now, now + time, parts_.holdings.op(), item.storage(), item.bytes);
  return true;
}

TimeNs CopyTraffic::duration(LinkKind link, const Copy& copy) const {
  const Bytes bytes = parts_.holdings[copy.item].bytes;
  TimeNs time = copy_time(*problem_.machine.link(link), bytes);
  if (is_fetch(copy)) {
    const std::uint64_t pages = round_up(bytes, kPageBytes.count).count / kPageBytes.count;
    time += page_fault_ns_ * static_cast<TimeNs>(pages);
  }
  return time;
}

void CopyTraffic::end(LinkKind link) {
  const Copy copy = parts_.queues.finish(link).copy;
  const bool to_device = problem_.machine.link(LinkKind::kHostToDevice).has_value();
  if (copy.leg == Leg::kOutFirst) {
    parts_.queues.push(LinkKind::kHostToDisk, {.item = copy.item, .leg = Leg::kOutSecond});
  } else if (copy.leg == Leg::kInFirst && to_device) {
    parts_.queues.push_second(LinkKind::kHostToDevice, {.item = copy.item, .leg = Leg::kInSecond});
  } else {
    parts_.holdings.send(copy.item, residency::EventKind::kCopyCompleted);
    parts_.departures.settle(copy.item);
  }
  begin();
}

void CopyTraffic::advance(TimeNs time) {
  for (auto link = parts_.queues.first_to_end(); link && parts_.queues.end_of(*link) <= time;
       link = parts_.queues.first_to_end()) {
    parts_.holdings.set_now(parts_.queues.end_of(*link));
    end(*link);
  }
  parts_.holdings.set_now(std::max(parts_.holdings.now(), time));
}

bool CopyTraffic::step_to_next_end() {
  const auto link = parts_.queues.first_to_end();
  if (!link) return false;
  advance(parts_.queues.end_of(*link));
  return true;
}

}  // namespace spillway::planning::sim
