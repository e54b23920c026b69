// SPDX-License-Identifier: Apache-2.0
#include "room_maker.hpp"

#include <vector>

#include "spillway/runtime/exec/shown_frame.hpp"
#include "spillway/runtime/exec/victim_order.hpp"

namespace spillway::runtime {

// Where none of the best could leave (disk full, exported), the next best are tried.
Bytes RoomMaker::start_evictions(Bytes needed) {
  Bytes leaving{};
  VictimOrder& order = mover_.order();
  std::vector<StorageRecord*> stayed;
  while (leaving.count == 0) {
    const std::vector<StorageRecord*> victims =
        order.choose(needed, steps_.clock(), rules_.min_size());
    if (victims.empty()) break;
    for (StorageRecord* record : victims) {
      const Bytes left = departures_.begin(*record);
      leaving += left;
      if (left.count != 0) continue;
      order.set_aside(*record);
      stayed.push_back(record);
    }
  }
  for (StorageRecord* record : stayed) record->announce();  // the next time they may
  return leaving;
}

void RoomMaker::keep_headroom() {
  if (rules_.start_at() >= 1.0 || rules_.blind() || !moves(rules_.mode())) return;
  const Bytes excess = above_start();
  if (excess.count != 0) start_evictions(excess);
}

Bytes RoomMaker::above_start() const {
  const auto start =
      static_cast<std::uint64_t>(rules_.start_at() * static_cast<double>(budget_.limit().count));
  return saturating_sub(memory_.live(), Bytes{start} + mover_.leaving());
}

bool RoomMaker::make_room(Bytes needed, RoomRequest& request, EngineLock& lock) {
  if (!moves(rules_.mode())) return false;
  if (budget_.claim(needed)) return true;
  if (rules_.blind()) return false;
  const std::uint64_t ended_before = frames_ended();
  // Dead storages must neither be evicted nor stand in the way.
  const Bytes live_before = memory_.live();
  freed_.drain();
  if (memory_.live() < live_before) return true;
  const Bytes missing = saturating_sub(needed, mover_.leaving() + memory_.coming());
  const bool nothing_leaves = missing.count != 0 && start_evictions(missing).count == 0;
  if (memory_.live() < live_before) return true;  // clean copies left at once
  if (nothing_leaves && let_go_of_fresh_outputs()) return true;
  const std::uint64_t changes = budget_.changes();
  return waits_.for_progress(request, lock, ended_before) || budget_.changes() != changes;
}

// Of every thread, this one too: it may ask for room between two ops.
bool RoomMaker::let_go_of_fresh_outputs() {
  bool any = false;
  each_shown_frame([&](ShownFrame& frame) {
    any |= frame.fresh().let_go_if([&](const StorageRecord& record) {
      void* const owner = record.owner.load();
      return owner != nullptr && framework_.handed_over(owner);
    });
  });
  return any;
}

}  // namespace spillway::runtime
