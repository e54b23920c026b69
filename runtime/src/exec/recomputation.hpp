// SPDX-License-Identifier: Apache-2.0
// Runs again the ops that made a dropped storage, on the thread that asks for it.
//
//     asked for | its room is taken | what it holds is pinned and brought in | without the lock:
//     the ops, one after the other, with memory for what is made on the way | its bytes are in
//     place
//
// Other threads that ask wait meanwhile, as for a copy. The thread needs no frame, and what it
// reads counts as no use of its step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine_lock.hpp"
#include "freed_storages.hpp"
#include "spillway/runtime/device/stream_uses.hpp"
#include "spillway/runtime/exec/making.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

class Demands;
struct ThreadFrames;

class Recomputation {
 public:
  Recomputation(DeviceTier& memory, Mover& mover, FreedStorages& freed)
      : memory_(memory), streams_(memory.stream_uses()), mover_(mover), freed_(freed) {}
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;

  /// `Mover::request` said kRecompute of it. False if it could not be made (`last_failure` says
  /// why); it is dropped as before then. Throws OutOfBudget, likewise.
  bool run(StorageRecord& record, Demands& demands, EngineLock& lock);
  /// Makes all that are dropped, or with `source` those that will be made from it. False if that
  /// failed for one.
  bool bring_back(const StorageRecord* source, Demands& demands, EngineLock& lock);
  /// The bytes of `source`, null: of any storage, change all the same: what would be made from them
  /// is lost, and its user told.
  void give_up(const StorageRecord* source);

 private:
  class Memory;
  struct Run {
    const std::vector<HeldSource>& held;
    Demands& demands;
    EngineLock& lock;
  };
  void make(const Made& made, std::byte* to, Run& run);
  void launch(const Made& made, StorageRecord& record, ThreadFrames& frames, Run& run);

  DeviceTier& memory_;
  StreamUses* const streams_;  // null: the processor alone uses the memory
  Mover& mover_;
  FreedStorages& freed_;
};

}  // namespace spillway::runtime
