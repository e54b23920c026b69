// SPDX-License-Identifier: Apache-2.0
#include "what_stays.hpp"

#include <algorithm>

#include "spillway/runtime/exec/victim_order.hpp"

namespace spillway::runtime {

bool can_leave(const StorageRecord& record, Bytes min_size) {
  return record.pins.load(std::memory_order_relaxed) == 0 && leaves_unless_pinned(record, min_size);
}

bool never_leaves(const StorageRecord& record, Bytes min_size) {
  return record.bytes < min_size || record.kept != 0 ||
         record.state.load() == residency::ResidencyState::kExempt;
}

Bytes bytes_that_stay_anyway(const DeviceTier& memory, const Mover& mover, Bytes min_size,
                             ThreadFrames& frames) {
  std::ranges::sort(frames.pinned);
  return bytes_that_stay(memory, mover, [&](const StorageRecord& record) {
    return never_leaves(record, min_size) || std::ranges::binary_search(frames.pinned, &record);
  });
}

}  // namespace spillway::runtime
