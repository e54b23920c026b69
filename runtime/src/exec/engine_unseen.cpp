// SPDX-License-Identifier: Apache-2.0
// Ops that are not seen, or of which it is not known what they use.
#include <algorithm>

#include "engine_lock.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

bool Engine::prepare_for_unseen_ops() {
  Lock lock(*this);
  drain_freed();
  const bool all_here = std::ranges::all_of(mover_.live(), [](const StorageRecord* record) {
    const ResidencyState state = record->state.load();
    return state == ResidencyState::kResident || state == ResidencyState::kExempt;
  });
  if (all_here) drop_all_copies();
  return all_here;
}

void Engine::drop_all_copies() {
  const std::vector<StorageRecord*> records = mover_.live();  // which dropping may reorder
  for (StorageRecord* record : records) mover_.drop_copies(*record);
}

// Blind before the lock: what began to leave by then is away for the op, nothing follows it.
Engine::Reach::Reach(Engine& engine) : engine_(&engine) {
  if (engine.in_child_) return;
  engine.reaching_.fetch_add(1);
  Lock lock(engine);
  engine.drain_freed();
  engine.drop_all_copies();
}

Engine::Reach::~Reach() {
  if (engine_ != nullptr && !engine_->in_child_) engine_->reaching_.fetch_sub(1);
}

}  // namespace spillway::runtime
