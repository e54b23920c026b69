// SPDX-License-Identifier: Apache-2.0
// Meets the requests of ops: for new memory, and for storages that are away.
//
//     ask the memory (or the mover) | short? make room, ask again | none to be had?
//                                     take back what others claimed, exceed the budget if that is
//                                     allowed, else refuse with the facts
//
// Under the engine's lock, which is let go of while room is awaited.
#pragma once

#include <cstddef>

#include "budget_share.hpp"
#include "engine_lock.hpp"
#include "freed_storages.hpp"
#include "recomputation.hpp"
#include "room_maker.hpp"
#include "shortages.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/stream_uses.hpp"
#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/exec/step_counter.hpp"
#include "spillway/runtime/exec/trace_recorder.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "status_publisher.hpp"
#include "waits.hpp"

namespace spillway::runtime {

class Demands {
 public:
  Demands(DeviceTier& memory, Mover& mover, BudgetShare& budget, const MoveRules& rules,
          StepCounter& steps, const RecorderSlot& recorder, FreedStorages& freed, Waits& waits,
          RoomMaker& room, Shortages& shortages, StatusPublisher& status,
          Recomputation& recomputation)
      : memory_(memory),
        streams_(memory.stream_uses()),
        mover_(mover),
        budget_(budget),
        rules_(rules),
        steps_(steps),
        recorder_(recorder),
        freed_(freed),
        waits_(waits),
        room_(room),
        shortages_(shortages),
        status_(status),
        recomputation_(recomputation) {}
  Demands(const Demands&) = delete;
  Demands& operator=(const Demands&) = delete;

  // Both throw OutOfBudget, whose facts are not yet in words: see Shortages.
  /// Device memory for the calling thread's op.
  std::byte* allocate(Bytes bytes, EngineLock& lock);
  /// Makes a storage accessible that the calling thread has pinned. False if its bytes cannot be
  /// read (`last_failure` says why).
  bool settle(StorageRecord& record, Access access, EngineLock& lock);
  /// What is held is brought under a limit that became lower, as far as anything can leave.
  void reach_limit(EngineLock& lock);

 private:
  enum class Way : std::uint8_t { kAskAgain, kExceed, kRefuse };
  Way find_room(Bytes short_by, RoomRequest& request, EngineLock& lock);
  Allocation ask_memory(Bytes bytes, Overbooking overbooking);
  void note_allocated(const Allocation& made, Bytes bytes);

  DeviceTier& memory_;
  StreamUses* const streams_;  // null: the processor alone uses the memory
  Mover& mover_;
  BudgetShare& budget_;
  const MoveRules& rules_;
  StepCounter& steps_;
  const RecorderSlot& recorder_;
  FreedStorages& freed_;
  Waits& waits_;
  RoomMaker& room_;
  Shortages& shortages_;
  StatusPublisher& status_;
  Recomputation& recomputation_;
};

}  // namespace spillway::runtime
