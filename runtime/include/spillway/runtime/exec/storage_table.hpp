// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "spillway/runtime/exec/stale_records.hpp"
#include "spillway/runtime/exec/storage_record.hpp"

namespace spillway::runtime {

/// The records of all storages. A record's address is stable, and its memory is reused when its
/// storage died, never given back. Under the engine's lock.
class StorageTable {
 public:
  StorageTable() = default;
  StorageTable(const StorageTable&) = delete;
  StorageTable& operator=(const StorageTable&) = delete;

  /// The record of a new storage, which announces itself to `stale`. The block knows it from now
  /// on.
  StorageRecord& add(StorageId id, DeviceBlock& block, Bytes bytes, StaleRecords& stale);
  /// The storage died, and nothing is left of it but the record.
  void remove(StorageRecord& record);

  /// In no order. What adds or removes may reorder it.
  [[nodiscard]] const std::vector<StorageRecord*>& live() const { return live_; }
  /// Those of dead storages too.
  [[nodiscard]] std::deque<StorageRecord>& all() { return records_; }

 private:
  std::deque<StorageRecord> records_;
  std::vector<StorageRecord*> unused_;
  std::vector<StorageRecord*> live_;
};

}  // namespace spillway::runtime
