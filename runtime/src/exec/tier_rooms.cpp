// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/tier_rooms.hpp"

#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

bool TierRooms::reserve_host(StorageRecord& record, Bytes copied) {
  record.host = host_.allocate(copied);
  return record.host != nullptr;
}

bool TierRooms::reserve_disk(StorageRecord& record, Bytes copied, std::string& why) {
  if (spool_ == nullptr) return false;
  try {
    if (const auto extent = spool_->allocate(bytes_on_disk(copied))) {
      record.disk = *extent;
      return true;
    }
    why = spool_->full_reason();
  } catch (const UserError& error) {  // the file cannot be opened, now
    why = error.what();
  }
  return false;
}

HostPages TierRooms::free_host(StorageRecord& record, Bytes copied) {
  return host_.give_back(std::exchange(record.host, nullptr), copied);
}

void TierRooms::free_disk(StorageRecord& record) {
  if (record.disk.bytes != 0) spool_->free(record.disk);
  record.disk = {};
}

}  // namespace spillway::runtime
