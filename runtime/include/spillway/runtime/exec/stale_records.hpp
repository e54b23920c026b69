// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "spillway/runtime/exec/storage_record.hpp"

namespace spillway::runtime {

/// Records of which something changed that says when they leave, since they were last looked at:
/// see VictimOrder. Each is in it once, however often it changes, so that what runs without a
/// shortage pays one load per use and no memory. Any thread, no lock.
class StaleRecords {
 public:
  void push(StorageRecord& record) {
    if (record.is_stale.load(std::memory_order_relaxed) || record.is_stale.exchange(true)) return;
    record.next_stale = first_.load(std::memory_order_relaxed);
    while (!first_.compare_exchange_weak(record.next_stale, &record, std::memory_order_release)) {
    }
  }

  /// Calls `look` with each and removes it. A record that changes meanwhile is in again. A use
  /// whose stamps are on their way while `look` reads them may be missed until the next one: the
  /// record is pinned then, and afterwards it is a little misplaced.
  template <typename Look>
  void take(const Look& look) {
    StorageRecord* record = first_.exchange(nullptr, std::memory_order_acquire);
    while (record != nullptr) {
      StorageRecord* const next = record->next_stale;
      record->is_stale.store(false);
      look(*record);
      record = next;
    }
  }

 private:
  std::atomic<StorageRecord*> first_{nullptr};
};

}  // namespace spillway::runtime
