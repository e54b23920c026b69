// SPDX-License-Identifier: Apache-2.0
// Room for copies on the tiers below the device: host memory and the spool.
//
// A record holds what it has there (`host`, `disk`); this gives it and takes it back. Under the
// engine's lock. `copied` is the length of a storage's copies, see DeviceTier::copy_range.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/storage_record.hpp"
#include "spillway/runtime/memory/host_memory.hpp"
#include "spillway/runtime/transfer/spool.hpp"

namespace spillway::runtime {

class TierRooms {
 public:
  /// The host room outlives it.
  explicit TierRooms(HostRoom& host) : host_(host) {}

  void set_host_limit(Bytes limit) { host_.set_limit(limit); }
  /// The next extents come from that file. Returns the present one, which holds nothing.
  [[nodiscard]] std::shared_ptr<Spool> replace_spool(std::shared_ptr<Spool> spool) {
    return std::exchange(spool_, std::move(spool));
  }
  /// Null where nothing is ever evicted.
  [[nodiscard]] Spool* spool() const { return spool_.get(); }
  [[nodiscard]] const HostRoom& host() const { return host_; }

  /// False if the host has no room.
  bool reserve_host(StorageRecord& record, Bytes copied);
  /// False if the disk has no room: `why` receives the reason, if there is a disk at all.
  bool reserve_disk(StorageRecord& record, Bytes copied, std::string& why);
  /// The memory is freed with what is returned, which the room does not wait for.
  [[nodiscard]] HostPages free_host(StorageRecord& record, Bytes copied);
  void free_disk(StorageRecord& record);

  /// Returns the room of a copy on the disk: direct transfers move whole pages.
  [[nodiscard]] static Bytes bytes_on_disk(Bytes copied) {
    return round_up(copied, HostMemory::kPage.count);
  }

 private:
  HostRoom& host_;
  std::shared_ptr<Spool> spool_;
};

}  // namespace spillway::runtime
