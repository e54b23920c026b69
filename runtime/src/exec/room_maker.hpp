// SPDX-License-Identifier: Apache-2.0
// Makes room on the device when it is needed: decides which storages leave now, and what a thread
// waits for until they have left.
//
//     make_room   what was freed dies | the best victims leave | fresh outputs are let go of | wait
//
// Callers ask again whenever it says that there may be room (Demands). All functions need the
// engine's lock.
#pragma once

#include "budget_share.hpp"
#include "departures.hpp"
#include "engine_lock.hpp"
#include "freed_storages.hpp"
#include "room_request.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/framework.hpp"
#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/exec/step_counter.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "waits.hpp"

namespace spillway::runtime {

class RoomMaker {
 public:
  RoomMaker(Framework& framework, const DeviceTier& memory, Mover& mover, BudgetShare& budget,
            const MoveRules& rules, const StepCounter& steps, FreedStorages& freed, Waits& waits,
            Departures& departures)
      : framework_(framework),
        memory_(memory),
        mover_(mover),
        budget_(budget),
        rules_(rules),
        steps_(steps),
        freed_(freed),
        waits_(waits),
        departures_(departures) {}
  RoomMaker(const RoomMaker&) = delete;
  RoomMaker& operator=(const RoomMaker&) = delete;

  /// `needed` bytes are short for `request`. True if it is worth asking for them again; false if
  /// nothing more can leave and nothing is worth waiting for.
  bool make_room(Bytes needed, RoomRequest& request, EngineLock& lock);

  /// Starts evicting what is in use beyond SPILLWAY_START_AT. Nobody waits for it.
  void keep_headroom();
  /// Bytes in use beyond SPILLWAY_START_AT that are not leaving.
  [[nodiscard]] Bytes above_start() const;

 private:
  Bytes start_evictions(Bytes needed);
  bool let_go_of_fresh_outputs();

  Framework& framework_;
  const DeviceTier& memory_;
  Mover& mover_;
  BudgetShare& budget_;
  const MoveRules& rules_;
  const StepCounter& steps_;
  FreedStorages& freed_;
  Waits& waits_;
  Departures& departures_;
};

}  // namespace spillway::runtime
