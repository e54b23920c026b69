// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ahead_mover.hpp"
#include "all_storages.hpp"
#include "budget_share.hpp"
#include "counters.hpp"
#include "demands.hpp"
#include "departures.hpp"
#include "engine_lock.hpp"
#include "floor_meter.hpp"
#include "fork_pipe.hpp"
#include "forked_child.hpp"
#include "freed_storages.hpp"
#include "op_fit.hpp"
#include "op_times.hpp"
#include "recomputation.hpp"
#include "room_maker.hpp"
#include "run_outcome.hpp"
#include "shortages.hpp"
#include "spillway/runtime/exec/engine.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "status_publisher.hpp"
#include "waits.hpp"

namespace spillway::runtime {

/// The parts of an engine beside those that ops read without a call. Each is given what it needs of
/// those above it; none knows the engine.
///
///     mutex, mover          the lock; what moves storages
///     budget                how many bytes may be held
///     freed, waits          what was freed dies; waiting for copies and for other threads
///     floor, counters,      what is measured, and where it is shown
///     status
///     shortages             why an op does not fit
///     departures            whether what leaves is copied away or dropped
///     room, demands         making room; allocations and uses that need it
///     recomputation         ops run again for what was dropped
///     fit                   ops that cannot end are refused before they begin
///     ahead                 moves along the recorded step
///     all                   what is done to all storages at once
///     op_times              durations of recorded ops
///     child, fork_pipe      forks
struct Engine::Parts {
  Parts(Framework& framework, TierSet& tiers, MoveRules& rules, StepCounter& steps,
        RecorderSlot& recorder)
      : Parts(framework, tiers, tiers.device(), rules, steps, recorder) {}
  Parts(Framework& framework, TierSet& tiers, DeviceTier& memory, MoveRules& rules,
        StepCounter& steps, RecorderSlot& recorder)
      : mutex(framework),
        mover(mutex.mutex(), mutex.settled(), memory, tiers.host(), framework, mutex.remains()),
        budget(tiers),
        freed(memory, mover, recorder),
        waits(mutex, framework, memory, mover, budget, rules),
        floor(memory, mover, rules),
        counters(memory, mover, budget, rules, steps, waits, floor, outcome),
        status(counters, memory, budget, steps, outcome),
        shortages(framework, memory, mover, budget, rules, status),
        departures(memory, mover, budget, rules),
        room(framework, memory, mover, budget, rules, steps, freed, waits, departures),
        recomputation(memory, mover, freed),
        demands(memory, mover, budget, rules, steps, recorder, freed, waits, room, shortages,
                status, recomputation),
        fit(mutex, memory, mover, budget, rules, steps, freed, shortages),
        ahead(mutex, memory, mover, budget, rules, steps, freed, room, departures),
        all(mover, rules, freed, waits, departures, demands, recomputation),
        child(mutex, framework, memory, mover, budget) {}

  EngineMutex mutex;
  Mover mover;
  BudgetShare budget;
  FreedStorages freed;
  Waits waits;
  FloorMeter floor;
  RunOutcome outcome;
  Counters counters;
  StatusPublisher status;
  Shortages shortages;
  Departures departures;
  RoomMaker room;
  Recomputation recomputation;
  Demands demands;
  OpFit fit;
  AheadMover ahead;
  AllStorages all;
  ForkedChild child;
  ForkPipe fork_pipe;
  OpTimes op_times;
};

}  // namespace spillway::runtime
