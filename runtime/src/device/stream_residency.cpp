// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/stream_residency.hpp"

#include <fmt/format.h>

#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

using residency::ActionKind;
using residency::EventKind;
using residency::ResidencyState;

StreamResidency::StreamResidency(VmmPages& pages, PinnedHostMemory& host,
                                 StreamTransfers& transfers, StreamClock& clock)
    : pages_(pages), host_(host), transfers_(transfers), clock_(clock) {}

void StreamResidency::on(EventKind kind, StorageId id, Tier tier) {
  actions_.clear();
  machine_.on({kind, id, tier}, 0, actions_);
  for (const residency::Action& action : actions_) carry_out(action);
  if (!machine_.contains(id)) storages_.erase(id);
}

void StreamResidency::carry_out(const residency::Action& action) {
  const auto found = storages_.find(action.id);
  if (found == storages_.end()) return;
  Storage& storage = found->second;
  switch (action.kind) {
    case ActionKind::kStartCopy:
      start_copy(action.id, storage,
                 action.from == Tier::kDevice ? Direction::kOut : Direction::kIn);
      break;
    case ActionKind::kFreeMemory:
      if (action.from == Tier::kDevice) free_device(storage);
      if (action.from == Tier::kHost) free_host(storage);
      break;
    default:  // nobody has pointers to revoke, and nobody sleeps
      break;
  }
}

void StreamResidency::start_copy(StorageId id, Storage& storage, Direction direction) {
  if (storage.intact) return;
  // Of a fetch into fresh pages all uses have passed, so it waits for nothing.
  const TransferId copy =
      transfers_.submit({direction, storage.block, storage.host, storage.bytes, storage.uses});
  storage.copy = copy;
  copies_[copy] = id;
}

void StreamResidency::free_device(Storage& storage) {
  if (storage.dead) {
    freed_.add({storage.block, pages_.pages_for(storage.bytes), storage.uses});
    storage.block = {};
  } else {
    pages_.close(storage.block, storage.uses);
  }
}

void StreamResidency::free_host(Storage& storage) {
  host_.free_after(std::exchange(storage.host, nullptr), storage.bytes, storage.host_uses);
}

bool StreamResidency::open_block(Bytes bytes, DeviceStream stream, Storage& storage) {
  const Bytes whole = pages_.pages_for(bytes);
  const auto take_over = [&](DeviceAddress block, const Fence& before) {
    clock_.order_after(stream, before);
    storage.block = block;
    storage.uses = before;
    storage.arrival = before;  // for streams that use it, too, without waiting for this one
    storage.arrived_on = mask_of(clock_.slot_of(stream));
    return true;
  };
  if (const auto freed = freed_.take(whole, clock_.slot_of(stream))) {
    return take_over(freed->address, freed->fence);
  }
  const auto vacant = freed_.take_vacant(whole);
  const auto block = vacant ? vacant : pages_.carve(whole);
  if (!block) return false;
  if (const auto before = pages_.recall(*block)) return take_over(*block, *before);
  if (pages_.open(*block, whole)) return take_over(*block, {});
  freed_.add_vacant(*block, whole);
  return false;
}

std::optional<StorageId> StreamResidency::create(Bytes bytes, DeviceStream stream) {
  Storage storage;
  storage.bytes = bytes;
  if (!open_block(bytes, stream, storage)) return std::nullopt;
  const StorageId id = machine_.create(bytes);
  storages_.emplace(id, storage);
  return id;
}

bool StreamResidency::bring_in(StorageId id, Storage& storage, EventKind event) {
  const bool recalled = pages_.recall(storage.block).has_value();
  if (!recalled && !pages_.open(storage.block, storage.bytes)) return false;
  // Nobody had taken the pages yet, and the bytes were there when it left: they still are, and what
  // a stream has to wait for, the storage still knows.
  storage.intact = recalled && storage.left_whole;
  on(event, id);
  if (std::exchange(storage.intact, false)) on(EventKind::kCopyCompleted, id);
  return true;
}

std::optional<DeviceAddress> StreamResidency::use(StorageId id, DeviceStream stream,
                                                  DeviceUse use) {
  Storage& storage = storages_.at(id);
  const EventKind event = use == DeviceUse::kWrite ? EventKind::kWrite : EventKind::kUse;
  if (machine_.state(id) == ResidencyState::kOnHost) {
    if (!bring_in(id, storage, event)) return std::nullopt;
  } else {
    on(event, id);
  }
  if (machine_.state(id) == ResidencyState::kEvicting && use == DeviceUse::kWrite &&
      transfers_.cancel(*storage.copy)) {
    on(EventKind::kCancel, id);  // it would be copied for nothing
    failed(id, storage);
  }
  if (machine_.state(id) == ResidencyState::kFetching) {
    // Waiting for a copy that no stream has yet would be waiting for nothing.
    const auto fence = transfers_.hurry(*storage.copy);
    if (!fence) {
      failed(id, storage);
      return std::nullopt;
    }
    issued(id, storage, *fence);
  }
  const StreamSlot slot = clock_.slot_of(stream);
  if ((storage.arrived_on & mask_of(slot)) == 0) {
    clock_.order_after(stream, storage.arrival);
    storage.arrived_on |= mask_of(slot);
  }
  ++storage.pins;
  return storage.block;
}

void StreamResidency::used(StorageId id, DeviceStream stream) {
  Storage& storage = storages_.at(id);
  SPILLWAY_CHECK(storage.pins != 0, "a use ends that did not begin");
  storage.uses.join(clock_.fence(clock_.slot_of(stream)));
  --storage.pins;
}

bool StreamResidency::evict(StorageId id) {
  Storage& storage = storages_.at(id);
  if (storage.pins != 0 || machine_.state(id) != ResidencyState::kResident) return false;
  if (!machine_.has_copy(id, Tier::kHost)) {
    storage.host = host_.allocate(storage.bytes);
    storage.host_uses = {};
    if (storage.host == nullptr) return false;
  }
  storage.left_whole = true;
  on(EventKind::kEvict, id, Tier::kHost);
  return true;
}

bool StreamResidency::prefetch(StorageId id) {
  return machine_.state(id) == ResidencyState::kOnHost &&
         bring_in(id, storages_.at(id), EventKind::kUse);
}

bool StreamResidency::give_up(StorageId id) {
  Storage& storage = storages_.at(id);
  if (machine_.state(id) != ResidencyState::kFetching || !transfers_.cancel(*storage.copy)) {
    return false;
  }
  on(EventKind::kCancel, id);
  failed(id, storage);
  return true;
}

void StreamResidency::die(StorageId id) {
  Storage& storage = storages_.at(id);
  SPILLWAY_CHECK(storage.pins == 0, "a storage dies in use");
  storage.dead = true;
  if (storage.copy && transfers_.cancel(*storage.copy)) {
    on(EventKind::kDie, id);
    failed(id, storage);
    return;
  }
  if (machine_.state(id) == ResidencyState::kOnHost) {
    freed_.add_vacant(storage.block, pages_.pages_for(storage.bytes));
  }
  on(EventKind::kDie, id);
}

void StreamResidency::issued(StorageId id, Storage& storage, const Fence& fence) {
  copies_.erase(*std::exchange(storage.copy, std::nullopt));
  storage.arrival = fence;
  storage.arrived_on = 0;
  storage.uses.join(fence);
  storage.host_uses.join(fence);
  on(EventKind::kCopyCompleted, id);
}

void StreamResidency::failed(StorageId id, Storage& storage) {
  copies_.erase(*std::exchange(storage.copy, std::nullopt));
  if (machine_.state(id) == ResidencyState::kFetching) storage.left_whole = false;
  on(EventKind::kCopyFailed, id);
}

void StreamResidency::advance() {
  news_.clear();
  transfers_.advance(news_);
  for (const CopyNews& news : news_) {
    const auto found = copies_.find(news.id);
    if (found == copies_.end()) continue;  // a fetch ends: its arrival was enough
    const StorageId id = found->second;
    Storage& storage = storages_.at(id);
    const bool fetching = machine_.state(id) == ResidencyState::kFetching;
    if (news.stage == CopyStage::kFailed) {
      failed(id, storage);
    } else if (news.stage == CopyStage::kIssued && fetching) {
      issued(id, storage, news.fence);
    } else if (news.stage == CopyStage::kEnded) {
      copies_.erase(found);
      storage.copy.reset();
      on(EventKind::kCopyCompleted, id);
    }
  }
  pages_.settle();
  host_.settle();
}

bool StreamResidency::make_room() {
  advance();
  if (const auto block = freed_.take_oldest()) {
    pages_.close(block->address, block->fence);
    freed_.add_vacant(block->address, block->pages);
    pages_.settle();
    return true;
  }
  if (pages_.settle_one()) return true;
  if (!transfers_.wait_for_one(Direction::kOut)) return false;
  advance();
  return true;
}

}  // namespace spillway::runtime
