// SPDX-License-Identifier: Apache-2.0
// How the engine stops managing, while other threads may go on making, using and freeing storages.
#include <vector>

#include "engine_lock.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

// The mode and the limit change together: a thread that waits for room, or asks for it now, must
// not meet the old limit with nothing moving any more.
void Engine::stop() {
  if (in_child_) {
    mode_.store(Mode::kOff);
    return;
  }
  Lock lock(*this);
  mode_.store(Mode::kOff);
  memory_.set_small_objects(SmallObjects::kSlabs);
  memory_.set_poison(Poison::kNo);
  granted_ = kNoLimit;
  set_budget(kNoLimit);
  shared_.release();
  sharing_ = false;
  settled_.notify_all();
  bring_everything_back(lock);
  drop_all_copies();
  watching_.store(false);
  outcome_.stopped_after_step = 0;
  publish();
}

// Nothing holds these storages: each may die whenever the lock is given up, so every round looks
// anew at what lives. A round in which a copy failed is the last.
void Engine::bring_everything_back(Lock& lock) {
  const auto wait = [&] {
    while (mover_.in_flight() != 0) wait_for_copies(lock.native());
  };
  wait();  // also for those of storages that died meanwhile, which nobody may ask for any more
  const MoveStatistics& moves = mover_.statistics();
  bool again = true;
  while (again) {
    drain_freed();
    again = false;
    const std::uint64_t failed = moves.failed_copies;
    const std::vector<StorageRecord*> records = mover_.live();  // which requests may reorder
    for (StorageRecord* record : records) {
      const ResidencyState state = record->state.load();
      if (state == ResidencyState::kResident || state == ResidencyState::kExempt) continue;
      const Mover::Request request = mover_.request(*record, Access::kRead, Overbooking::kAllow);
      again |= request.outcome == Mover::Outcome::kPending;
    }
    wait();
    again = again && moves.failed_copies == failed;
  }
  // An op that asks for what could not be read has a try of its own.
  for (StorageRecord* record : mover_.live()) record->failed = false;
}

}  // namespace spillway::runtime
