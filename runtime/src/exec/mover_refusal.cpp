// SPDX-License-Identifier: Apache-2.0
// The accesses that storages that are away refuse, and the words of the refusal.
#include <fmt/format.h>

#include <string>

#include "spillway/runtime/exec/mover.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

std::string Mover::revoked_text(const StorageRecord& record) const {
  const char* made_by = record.made_by.load();
  return fmt::format(
      "Spillway: a storage that is not in memory was accessed by code that no hook shows: storage "
      "{} of {}, made by {}, now on a slower tier. Hold it for the access with "
      "spillway.resident(tensor), or name the op in SPILLWAY_KEEP_OPS.",
      to_value(record.id), to_string(record.bytes), made_by == nullptr ? "unknown" : made_by);
}

void Mover::refuse_all(StorageRecord& record) {
  if (void* owner = record.owner.load()) {
    framework_.revoke(owner, record, revoked_text(record), Refusal::kAll);
  }
}

void Mover::refuse(StorageRecord& record) {
  if (!addresses_shown_ || record.block->accessible) return refuse_all(record);
  if (void* owner = record.owner.load()) {
    framework_.revoke(owner, record, revoked_text(record), Refusal::kWriting);
  }
}

void Mover::show_addresses(bool shown) {
  addresses_shown_ = shown;
  for (StorageRecord* record : live_) {
    const ResidencyState state = record->state.load();
    const bool here = state == ResidencyState::kResident || state == ResidencyState::kExempt;
    if (!here && record->block != nullptr) refuse(*record);
  }
}

}  // namespace spillway::runtime
