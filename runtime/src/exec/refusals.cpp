// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/refusals.hpp"

#include <fmt/format.h>

#include <string>

namespace spillway::runtime {

namespace {

std::string words_for(const StorageRecord& record) {
  const char* made_by = record.made_by.load();
  return fmt::format(
      "Spillway: a storage that is not in memory was accessed by code that no hook shows: storage "
      "{} of {}, made by {}, now on a slower tier. Hold it for the access with "
      "spillway.resident(tensor), or name the op in SPILLWAY_KEEP_OPS.",
      to_value(record.id), to_string(record.bytes), made_by == nullptr ? "unknown" : made_by);
}

}  // namespace

void Refusals::revoke(StorageRecord& record, Refusal refusal) {
  if (void* owner = record.owner.load()) {
    framework_.revoke(owner, record, words_for(record), refusal);
  }
}

void Refusals::refuse(StorageRecord& record) {
  const bool reading_faults = !record.block->accessible;
  revoke(record, addresses_shown_ && reading_faults ? Refusal::kWriting : Refusal::kAll);
}

void Refusals::allow(StorageRecord& record) {
  if (void* owner = record.owner.load()) framework_.grant(owner, record);
}

}  // namespace spillway::runtime
