// SPDX-License-Identifier: Apache-2.0
// Moves storages before it is urgent, along the recorded step: writes behind what GapPlan has away
// until its next use, and brings back what choose_prefetches says. Asks at the start of ops and has
// the mover do it.
//
// Looking takes at most one part in twenty of the time: where ops are short, it skips some. Moving
// counts for nothing there, since ops that ask for what was not moved have to do the same, nor does
// choosing gaps, which is done once in a step at most. Takes the engine's lock itself. Any thread.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "budget_share.hpp"
#include "departures.hpp"
#include "engine_lock.hpp"
#include "freed_storages.hpp"
#include "look_ahead.hpp"
#include "room_maker.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/exec/lane.hpp"
#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/exec/step_counter.hpp"
#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

class AheadMover {
 public:
  AheadMover(EngineMutex& mutex, DeviceTier& memory, Mover& mover, const BudgetShare& budget,
             const MoveRules& rules, const StepCounter& steps, FreedStorages& freed,
             const RoomMaker& room, Departures& departures)
      : mutex_(mutex),
        memory_(memory),
        mover_(mover),
        budget_(budget),
        rules_(rules),
        steps_(steps),
        freed_(freed),
        room_(room),
        departures_(departures) {}
  AheadMover(const AheadMover&) = delete;
  AheadMover& operator=(const AheadMover&) = delete;

  /// An outermost op in that lane has its inputs. Where the lane has left its step, takes back what
  /// was set going along it.
  void look_ahead(Lane& lane);

 private:
  // Time of the moves, and of choosing gaps, here and below.
  std::optional<TimeNs> move_ahead(Lane& lane);
  std::vector<AwayStorage> away_storages(const Lane::Outlook& outlook);
  Bytes idle_away(const Lane::Outlook& outlook);
  TimeNs write_behind(const Lane& lane);
  TimeNs expect(const Lane::Outlook& outlook);
  TimeNs prefetch(const Lane::Outlook& outlook, const Lane& lane);

  EngineMutex& mutex_;
  DeviceTier& memory_;
  Mover& mover_;
  const BudgetShare& budget_;
  const MoveRules& rules_;
  const StepCounter& steps_;
  FreedStorages& freed_;
  const RoomMaker& room_;
  Departures& departures_;
  std::atomic<TimeNs> look_again_at_{0};
  std::vector<StorageRecord*> away_records_;  // see away_storages
};

}  // namespace spillway::runtime
