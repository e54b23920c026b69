// SPDX-License-Identifier: Apache-2.0
#include "memory_model.hpp"

#include <utility>

namespace spillway::planning::sim {

using residency::EventKind;
using residency::ResidencyState;

MemoryModel::MemoryModel(const Problem& problem, TimeNs page_fault_ns, Measurements& measurements,
                         SimulationObserver* observer)
    : holdings_(problem, measurements, observer),
      departures_(problem, holdings_, queues_),
      fetches_(holdings_, queues_),
      traffic_(problem, page_fault_ns, {holdings_, queues_, departures_, fetches_}, measurements) {}

// --- actions of a plan ---

void MemoryModel::evict(ItemIndex item, Tier tier) {
  departures_.evict(item, tier);
  traffic_.begin();
}

void MemoryModel::demote(ItemIndex item) {
  departures_.demote(item);
  traffic_.begin();
}

// Even a storage that is still here has to wait for its turn: until then its room is not its own.
// So one that waits to leave goes on waiting to leave, and may yet have to come back.
void MemoryModel::fetch(ItemIndex index) {
  Item& item = holdings_[index];
  const ResidencyState now = holdings_.state(index);
  if (now == ResidencyState::kDropped) return;
  if (now == ResidencyState::kResident && !waits_for(item)) return;
  if (!holdings_.is_here(index) && waits_for(item)) item.pending = {};
  departures_.stay(item);
  // The machine would fetch as soon as a demotion ends, room or not; so the host keeps its copy.
  if (now == ResidencyState::kDemoting) holdings_.send(index, EventKind::kEvict, Tier::kHost);
  if (!item.fetch.stands()) fetches_.queue(index, {});
  traffic_.begin();
}

void MemoryModel::forget(ItemIndex index) {
  Item& item = holdings_[index];
  if (item.fetch.stands()) {
    item.fetch.forgets = true;
  } else if (holdings_.is_here(index) || holdings_.state(index) == ResidencyState::kFetching) {
    // As if an op were to write: the slower copies are given up, at once or when the copy ends.
    holdings_.send(index, EventKind::kWrite);
    holdings_.note_levels();
  }
  traffic_.begin();
}

void MemoryModel::drop(ItemIndex item) {
  if (departures_.drop(item)) traffic_.begin();
}

// --- computing ---

bool MemoryModel::demand(ItemIndex index) {
  Item& item = holdings_[index];
  const ResidencyState now = holdings_.state(index);
  demands_.note(index, item, now);
  if (holdings_.is_here(index) || now == ResidencyState::kFetching) {
    // From now on, so that its eviction does not end while computing waits for something else. A
    // fetch of it that waits for its turn is over as well: an op's use comes ahead of all.
    keep(item);
    if (std::exchange(item.fetch, {}).forgets) {
      holdings_.send(index, EventKind::kWrite);
    } else if (now != ResidencyState::kResident) {
      holdings_.send(index, EventKind::kUse);
    }
    if (now == ResidencyState::kFetching) traffic_.begin();
    return false;
  }
  const QueuedFetch asked_for = item.fetch;
  if (!asked_for.urgent) {
    QueuedFetch wanted = asked_for;
    wanted.urgent = true;
    fetch(index);
    fetches_.queue(index, wanted);
  }
  traffic_.begin();
  return !asked_for.stands();
}

void MemoryModel::use(ItemIndex item, bool writes) {
  keep(holdings_[item]);
  if (!holdings_.send(item, writes ? EventKind::kWrite : EventKind::kUse)) return;
  holdings_.note_levels();
  traffic_.begin();
}

void MemoryModel::die(ItemIndex item) {
  departures_.withdraw(holdings_[item]);
  holdings_.send(item, EventKind::kDie);
  holdings_.note_levels();
  traffic_.begin();
}

// A recomputed storage has no slower copies, and their room is another's by the plan.
bool MemoryModel::withdraw_drop(ItemIndex index) {
  Item& item = holdings_[index];
  if (!is_dropped_next(item)) return false;
  item.pending = {};
  if (holdings_.state(index) == ResidencyState::kDemoting) {
    fetch(index);  // stays queued until the demotion has ended
    item.fetch.forgets = true;
  } else {
    holdings_.send(index, EventKind::kWrite);
  }
  return true;
}

void MemoryModel::begin_recomputation(ItemIndex item) {
  holdings_.send(item, EventKind::kUse);
  holdings_.note_levels();
}

void MemoryModel::end_recomputation(ItemIndex item) {
  holdings_.send(item, EventKind::kCopyCompleted);
}

void MemoryModel::release(Bytes bytes) {
  holdings_.release(bytes);
  traffic_.begin();
}

void MemoryModel::keep_room_for_computing(bool keep) {
  traffic_.set_urgent_only(keep);
  if (keep) return;
  demands_.reset();
  traffic_.begin();
}

bool MemoryModel::admit_fetches() {
  if (!traffic_.urgent_only()) return false;
  traffic_.set_urgent_only(false);
  traffic_.begin();
  traffic_.set_urgent_only(true);
  return !traffic_.is_idle();
}

// The plan evicts a, fetches b into its room and forgets b's copy on the host, which makes room
// there for evicting c. If an op needs a before it has left, or before b has come, b gets no room,
// so c gets none on the host, and the op none beside a and c.
bool MemoryModel::give_way() {
  if (demands_.gave_way()) return false;
  const bool urgent_only = traffic_.urgent_only();
  traffic_.set_urgent_only(false);
  bool any = false;
  for (const Demanded& demanded : demands_.give_way()) {
    const ItemIndex index = demanded.item;
    Item& item = holdings_[index];
    if (item.fetch.urgent) {
      QueuedFetch in_turn = item.fetch;
      in_turn.urgent = false;
      fetches_.queue(index, in_turn);
    } else if (holdings_.state(index) == ResidencyState::kResident &&
               (demanded.was_leaving || holdings_.has_slower_copy(item))) {
      evict(index, demanded.tier);
      if (demanded.fetch.stands()) fetches_.queue(index, demanded.fetch);
    } else {
      continue;
    }
    any = true;
  }
  traffic_.begin();
  traffic_.set_urgent_only(urgent_only);
  return any;
}

}  // namespace spillway::planning::sim
