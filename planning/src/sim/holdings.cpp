// SPDX-License-Identifier: Apache-2.0
#include "holdings.hpp"

namespace spillway::planning::sim {

using residency::EventKind;

ItemIndex Holdings::create(StorageId storage, Bytes bytes) {
  const auto index = static_cast<ItemIndex>(items_.size());
  items_.push_back({.id = machine_.create(bytes),
                    .bytes = bytes,
                    .row = static_cast<std::uint32_t>(to_value(storage))});
  measurements_.note_presence(role(items_[index]), true, bytes);
  if (observer_ != nullptr) observer_->on_create(items_[index].id, storage, bytes);
  note_levels();
  return index;
}

// The states of residency.md, reached by the events that lead there.
void Holdings::place(ItemIndex item, const PlanPlace& place) {
  const bool device = place.on(Tier::kDevice);
  const bool host = place.on(Tier::kHost);
  const bool disk = place.on(Tier::kDisk);
  const auto copied = [&] { send(item, EventKind::kCopyCompleted); };
  if (!device && !host && !disk) send(item, EventKind::kDrop);
  if (!host && !disk) return;
  send(item, EventKind::kEvict, host ? Tier::kHost : Tier::kDisk);
  copied();
  if (host && disk) {
    send(item, EventKind::kEvict, Tier::kDisk);
    send(item, EventKind::kEvict, Tier::kHost);  // the host keeps its copy
    copied();
  }
  if (device) {
    send(item, EventKind::kUse);
    copied();
  }
}

void Holdings::rename(ItemIndex index, StorageId storage) {
  Item& item = items_[index];
  if (item.storage() == storage) return;
  if (item.on_device) measurements_.note_presence(role(item), false, item.bytes);
  item.row = static_cast<std::uint32_t>(to_value(storage));
  if (item.on_device) measurements_.note_presence(role(item), true, item.bytes);
  note_levels();
}

}  // namespace spillway::planning::sim
