// SPDX-License-Identifier: Apache-2.0
// Which items have room on the device, told to the measurements by role.
//
// The machine says how much is held, not by whom; since an event is of one item, what it changes is
// that item's.
#include "memory_model.hpp"

namespace spillway::planning::sim {

void MemoryModel::note_presence(Item& item, Bytes device_before) {
  const Bytes device = machine_.used(Tier::kDevice);
  if (device == device_before) return;
  item.on_device = device > device_before;
  measurements_.note_presence(role(item), item.on_device, item.bytes);
}

void MemoryModel::rename(ItemIndex index, StorageId storage) {
  Item& item = items_[index];
  if (item.storage == storage) return;
  if (item.on_device) measurements_.note_presence(role(item), false, item.bytes);
  item.storage = storage;
  if (item.on_device) measurements_.note_presence(role(item), true, item.bytes);
  note_levels();
}

}  // namespace spillway::planning::sim
