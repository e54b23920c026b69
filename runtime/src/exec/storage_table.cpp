// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/storage_table.hpp"

#include <utility>

namespace spillway::runtime {

StorageRecord& StorageTable::add(StorageId id, DeviceBlock& block, Bytes bytes,
                                 StaleRecords& stale) {
  StorageRecord* record = nullptr;
  if (unused_.empty()) {
    record = &records_.emplace_back();
    record->stale = &stale;
  } else {
    record = unused_.back();
    unused_.pop_back();
  }
  record->id = id;
  record->block = &block;
  record->bytes = bytes;
  record->position = live_.size();
  record->state.store(residency::ResidencyState::kResident, std::memory_order_relaxed);
  live_.push_back(record);
  block.record = record;
  return *record;
}

// The record is reset field by field: pins may outlive the storage (a frame that is still open
// counts them down), everything else starts anew. Nobody else looks at it until the lock that
// `add` is called under has been taken, so no store needs an order of its own.
void StorageTable::remove(StorageRecord& record) {
  record.block->record = nullptr;
  live_.back()->position = record.position;
  std::swap(live_[record.position], live_.back());
  live_.pop_back();
  constexpr auto kUnordered = std::memory_order_relaxed;
  record.has_copy.store(false, kUnordered);
  record.last_use.store(0, kUnordered);
  record.next_use.store(0, kUnordered);
  record.leaves.store(false, kUnordered);
  record.always_dirty.store(false, kUnordered);
  record.made_by.store(nullptr, kUnordered);
  record.maker.store(nullptr, kUnordered);
  record.version.fetch_add(1);  // what was made from it finds it no more
  record.orphaned.store(false, kUnordered);
  record.read_unseen.store(false, kUnordered);
  record.again.store(0, kUnordered);
  record.block = nullptr;
  record.disk = {};
  record.made = {};
  record.holds.clear();
  record.prefetched = false;
  record.ahead_of = nullptr;
  record.checksum = 0;
  record.kept = 0;
  record.failed = false;
  unused_.push_back(&record);
}

}  // namespace spillway::runtime
