// SPDX-License-Identifier: Apache-2.0
#include "floor_meter.hpp"

#include <algorithm>

#include "what_stays.hpp"

namespace spillway::runtime {

void FloorMeter::begin(ThreadFrames& frames) const {
  std::ranges::sort(frames.pinned);
  frames.stays = bytes_that_stay(memory_, mover_, [&](const StorageRecord& record) {
    if (never_leaves(record, rules_.min_size())) return true;
    if (std::ranges::binary_search(frames.pinned, &record)) return false;
    return record.pins.load() != 0 || record.owner.load() == nullptr;
  });
}

// True for a storage that leaves when the op does not use it, and that the op did not make.
bool FloorMeter::may_leave_after(const ThreadFrames& frames, const StorageRecord& record) const {
  return record.block != nullptr && record.born.load(std::memory_order_relaxed) < frames.began &&
         !never_leaves(record, rules_.min_size());
}

Bytes FloorMeter::held_by(ThreadFrames& frames) const {
  std::ranges::sort(frames.pinned);
  Bytes held{};
  const StorageRecord* last = nullptr;
  for (const StorageRecord* record : frames.pinned) {
    if (record != last && may_leave_after(frames, *record)) held += record->bytes;
    last = record;
  }
  return held;
}

void FloorMeter::freed(ThreadFrames& frames, const StorageRecord& record) const {
  const bool is_input = std::ranges::find(frames.pinned, &record) != frames.pinned.end();
  if (is_input && may_leave_after(frames, record)) frames.ended += record.bytes;
}

// `grown` has what was given back inside taken off, inputs too: so they count, ended or not.
void FloorMeter::end(ThreadFrames& frames, Bytes grown) {
  floor_ = std::max(floor_, frames.stays + held_by(frames) + frames.ended + grown);
}

}  // namespace spillway::runtime
