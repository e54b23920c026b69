// SPDX-License-Identifier: Apache-2.0
#include "all_storages.hpp"

#include <algorithm>
#include <vector>

#include "spillway/runtime/exec/out_of_budget.hpp"
#include "what_stays.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

namespace {

bool is_here(const StorageRecord& record) {
  const ResidencyState state = record.state.load();
  return state == ResidencyState::kResident || state == ResidencyState::kExempt;
}

}  // namespace

// A full host tier takes nothing until it has passed something on to the disk, so this may take as
// many passes as there are storages.
void AllStorages::evict(EngineLock& lock) {
  if (rules_.blind()) return;
  const std::uint64_t failures = std::max(mover_.failures_in_a_row(), kMostFailures);
  bool again = true;
  for (std::size_t passes = mover_.live().size() + 1; again && passes != 0; --passes) {
    bool stayed = false;
    const std::vector<StorageRecord*> records = mover_.live();
    for (StorageRecord* record : records) {
      if (record->block == nullptr || !can_leave(*record, rules_.min_size())) continue;
      stayed |= departures_.begin(*record).count == 0;
    }
    again = stayed && mover_.in_flight() != 0;
    waits_.for_all_copies(lock);
    again = again && mover_.failures_in_a_row() <= failures && rules_.mode() == Mode::kFuzz;
  }
}

// Nothing holds these storages: each may die whenever the lock is given up, so every round looks
// anew at what lives. A round in which a copy failed is the last.
void AllStorages::bring_back(EngineLock& lock) {
  // Also for the copies of storages that died meanwhile, which nobody may ask for any more.
  waits_.for_all_copies(lock);
  const MoveStatistics& moves = mover_.statistics();
  std::vector<StorageId> lost;  // that could not be made again
  bool again = true;
  while (again) {
    freed_.drain();
    again = false;
    const std::uint64_t failed = moves.failed_copies;
    const std::vector<StorageRecord*> records = mover_.live();  // which requests may reorder
    for (StorageRecord* record : records) {
      if (is_here(*record) || std::ranges::find(lost, record->id) != lost.end()) continue;
      const Mover::Request request = mover_.request(*record, Access::kRead, Overbooking::kAllow);
      again |= request.outcome == Mover::Outcome::kPending;
      if (request.outcome != Mover::Outcome::kRecompute) continue;
      if (!make(*record, lock)) lost.push_back(record->id);
      again = true;
      break;  // other threads had the lock meanwhile
    }
    waits_.for_all_copies(lock);
    again = again && moves.failed_copies == failed;
  }
  // An op that asks for what could not be read has a try of its own.
  for (StorageRecord* record : mover_.live()) record->failed = false;
}

bool AllStorages::make(StorageRecord& record, EngineLock& lock) {
  try {
    return recomputation_.run(record, demands_, lock);
  } catch (const OutOfBudget&) {
    return false;
  }
}

void AllStorages::drop_copies() {
  const std::vector<StorageRecord*> records = mover_.live();  // which dropping may reorder
  for (StorageRecord* record : records) mover_.drop_copies(*record);
}

bool AllStorages::are_here() const {
  return std::ranges::all_of(mover_.live(),
                             [](const StorageRecord* record) { return is_here(*record); });
}

}  // namespace spillway::runtime
