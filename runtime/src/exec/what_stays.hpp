// SPDX-License-Identifier: Apache-2.0
// Adds up the bytes that stay on the device, however much room is wanted. Under the engine's lock.
#pragma once

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/frames.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/exec/storage_record.hpp"
#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

/// Whether nothing that the engine knows of keeps the storage where it is.
[[nodiscard]] bool can_leave(const StorageRecord& record, Bytes min_size);

/// Whether the storage stays whatever runs.
[[nodiscard]] bool never_leaves(const StorageRecord& record, Bytes min_size);

/// The bytes of storages that `stays` is true for, and of memory that is no storage's.
template <typename Stays>
[[nodiscard]] Bytes bytes_that_stay(const DeviceTier& memory, const Mover& mover,
                                    const Stays& stays) {
  Bytes bytes = memory.live();
  for (const StorageRecord* record : mover.live()) {
    if (!stays(*record)) bytes -= memory.held(*record->block);
  }
  return bytes;
}

/// The bytes that stay whatever other threads do: what never leaves, and what the calling thread's
/// op has pinned. Sorts the thread's pins.
[[nodiscard]] Bytes bytes_that_stay_anyway(const DeviceTier& memory, const Mover& mover,
                                           Bytes min_size, ThreadFrames& frames);

}  // namespace spillway::runtime
