// SPDX-License-Identifier: Apache-2.0
// Movements ahead of need, and taking them back when nobody needs them.
#include <vector>

#include "spillway/runtime/exec/mover.hpp"

namespace spillway::runtime {

using residency::EventKind;

bool Mover::prefetch(StorageRecord& record, const void* path) {
  if (record.failed) return true;
  const Request result = request(record, Access::kRead, Overbooking::kRefuse);
  const bool pending = result.outcome == Outcome::kPending;
  record.prefetched = pending;
  if (pending) record.ahead_of = path;
  return result.outcome != Outcome::kNeedsRoom;
}

Bytes Mover::write_behind(StorageRecord& record, const void* path) {
  const Bytes leaving = evict(record);
  if (leaving.count != 0 && record.leaving.count != 0) record.ahead_of = path;  // else it is gone
  return leaving;
}

void Mover::cancel_ahead(const void* path) {
  const std::vector<StorageRecord*> records = live();  // those of dead storages leave it here
  for (StorageRecord* record : records) {
    if (record->ahead_of != path || record->block == nullptr) continue;
    record->ahead_of = nullptr;
    const bool leaving = record->leaving.count != 0;
    if (!leaving && !record->prefetched) continue;
    if (!transfers_->cancel(record->transfer)) continue;
    send(*record, EventKind::kCancel);
    finish(*record, leaving ? Tier::kDevice : Tier::kDisk, leaving ? Tier::kDisk : Tier::kDevice,
           Ending::kCancelled);
  }
  settled_.notify_all();  // whoever waits for what was to leave must look again
}

}  // namespace spillway::runtime
