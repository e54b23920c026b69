// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/exec/trace_recorder.hpp"
#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

/// The storages that were freed since it was last looked: any thread frees without a lock
/// (DeviceMemory::free_later), and here they die.
class FreedStorages {
 public:
  FreedStorages(DeviceTier& memory, Mover& mover, const RecorderSlot& recorder)
      : memory_(memory), mover_(mover), recorder_(recorder) {}

  /// Gives back the memory of all that were freed. Under the engine's lock; their handles are
  /// destroyed when it is let go of.
  void drain() {
    memory_.take_freed(freed_);
    std::size_t died = 0;
    try {
      for (DeviceBlock* block : freed_) {
        ++died;
        if (TraceRecorder* const recording = recorder_.get()) recording->freed(block->record->id);
        mover_.die(*block->record);
      }
    } catch (...) {  // a device is lost: none of them may die twice
      freed_.erase(freed_.begin(), freed_.begin() + static_cast<std::ptrdiff_t>(died));
      throw;
    }
    freed_.clear();
  }

 private:
  DeviceTier& memory_;
  Mover& mover_;
  const RecorderSlot& recorder_;
  std::vector<DeviceBlock*> freed_;  // empty between calls, as a rule; keeps its memory
};

}  // namespace spillway::runtime
