// SPDX-License-Identifier: Apache-2.0
// The storages that lie on the host though the plan has them on the disk.
//
//     plan        evict a to disk            fetch a           evict b to host
//     host                |====== a ======== . . . . . . . . . a? |=== b ===
//     disk                        |== a ...  (taken back)
//
// A storage passes through the host on its way to the disk. Fetched before it is through, it comes
// from the host, and that copy stays: it makes the next eviction free. But the plan counts on the
// host's room, so the copy goes as soon as an eviction lacks it.
#include <algorithm>

#include "memory_model.hpp"

namespace spillway::planning::sim {

using residency::EventKind;
using residency::ResidencyState;

void MemoryModel::promise_disk(Item& item) {
  if (item.passage.has_room) return;
  item.passage.has_room = true;
  promised_disk_ += item.bytes;
}

void MemoryModel::break_promise(Item& item) {
  item.passage.goes_on = false;
  if (!item.passage.has_room) return;
  item.passage.has_room = false;
  promised_disk_ -= item.bytes;
}

void MemoryModel::mean_for_disk(ItemIndex index) {
  if (items_[index].passage.meant_for_disk) return;
  items_[index].passage.meant_for_disk = true;
  passing_.push_back(index);
}

/// Gives up one such copy. True if that made room at once; what is under way makes some when it
/// ends.
bool MemoryModel::clear_passage() {
  std::erase_if(passing_, [this](ItemIndex index) {
    return !items_[index].passage.meant_for_disk || !machine_.contains(items_[index].id);
  });
  return std::any_of(passing_.begin(), passing_.end(),
                     [this](ItemIndex index) { return leaves_passage(index); });
}

bool MemoryModel::leaves_passage(ItemIndex index) {
  const Item& item = items_[index];
  if (!machine_.has_copy(item.id, Tier::kHost)) return false;
  switch (state(index)) {
    case ResidencyState::kResident:
      send(index, EventKind::kWrite);  // a copy on the disk goes as well
      items_[index].passage.meant_for_disk = true;
      note_levels();
      return true;
    case ResidencyState::kOnHost: {
      const Bytes before = machine_.used(Tier::kHost);
      if (!waits_for(item)) try_demote(index);
      return machine_.used(Tier::kHost) < before;
    }
    default:
      return false;
  }
}

}  // namespace spillway::planning::sim
