// SPDX-License-Identifier: Apache-2.0
#include "memory_model.hpp"

#include <algorithm>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::planning::sim {

using residency::EventKind;
using residency::ResidencyState;

MemoryModel::MemoryModel(const Problem& problem, TimeNs page_fault_ns, Measurements& measurements,
                         SimulationObserver* observer)
    : problem_(problem),
      page_fault_ns_(page_fault_ns),
      measurements_(measurements),
      observer_(observer) {}

void MemoryModel::send(ItemIndex item, EventKind kind, Tier tier) {
  actions_.clear();
  if (kind == EventKind::kWrite || kind == EventKind::kDrop)
    items_[item].passage.meant_for_disk = false;
  const residency::Event event{kind, items_[item].id, tier};
  const Bytes device_before = machine_.used(Tier::kDevice);
  machine_.on(event, now_, actions_);
  note_presence(items_[item], device_before);
  if (observer_ != nullptr) observer_->on_event(machine_, event, now_, actions_);
}

MemoryModel::ItemIndex MemoryModel::create(StorageId storage, Bytes bytes) {
  const auto index = static_cast<ItemIndex>(items_.size());
  items_.push_back({.id = machine_.create(bytes), .storage = storage, .bytes = bytes});
  measurements_.note_presence(role(items_[index]), true, bytes);
  if (observer_ != nullptr) observer_->on_create(items_[index].id, storage, bytes);
  note_levels();
  return index;
}

// The states of residency.md, reached by the events that lead there.
void MemoryModel::place(ItemIndex item, const PlanPlace& place) {
  const bool device = place.on(Tier::kDevice);
  const bool host = place.on(Tier::kHost);
  const bool disk = place.on(Tier::kDisk);
  const auto copied = [&] { send(item, EventKind::kCopyCompleted); };
  if (!device && !host && !disk) send(item, EventKind::kDrop);
  if (!host && !disk) return;
  send(item, EventKind::kEvict, host ? Tier::kHost : Tier::kDisk);
  copied();
  if (host && disk) {
    send(item, EventKind::kEvict, Tier::kDisk);
    send(item, EventKind::kEvict, Tier::kHost);  // the host keeps its copy
    copied();
  }
  if (device) {
    send(item, EventKind::kUse);
    copied();
  }
}

bool MemoryModel::is_here(ItemIndex item) const {
  const ResidencyState now = state(item);
  return now == ResidencyState::kResident || now == ResidencyState::kEvicting;
}

bool MemoryModel::is_moving(ItemIndex index) const {
  const Item& item = items_[index];
  if (item.fetch || waits_for(item)) return true;
  return residency::in_flight(state(index));
}

bool MemoryModel::has_slower_copy(const Item& item) const {
  return machine_.has_copy(item.id, Tier::kHost) || machine_.has_copy(item.id, Tier::kDisk);
}

std::array<Bytes, kTierCount> MemoryModel::levels() const {
  return {device_used(), machine_.used(Tier::kHost), machine_.used(Tier::kDisk)};
}

Bytes MemoryModel::room(Tier tier) const {
  const Bytes promised = tier == Tier::kDisk ? promised_disk_ : Bytes{};
  return saturating_sub(problem_.budgets[tier], machine_.used(tier) + promised);
}

// --- leaving the device ---

void MemoryModel::evict(ItemIndex index, Tier tier) {
  Item& item = items_[index];
  item.fetch.reset();
  if (tier == Tier::kDisk) mean_for_disk(index);
  switch (state(index)) {
    case ResidencyState::kResident:
      leave(index, tier);
      break;
    case ResidencyState::kOnHost:
      if (tier == Tier::kDisk) demote(index);
      break;
    case ResidencyState::kEvicting:
      // Where it was written meanwhile, the machine keeps it: then it has to leave once more.
      item.pending = LeavesAgain{tier};
      item.passage.goes_on = item.passage.goes_on || tier == Tier::kDisk;
      send(index, EventKind::kEvict, tier);
      break;
    case ResidencyState::kFetching:
      item.passage.goes_on = tier == Tier::kDisk;
      send(index, EventKind::kEvict, tier);  // it is not wanted any more
      break;
    case ResidencyState::kDemoting:
      send(index, EventKind::kEvict, tier);
      break;
    default:
      break;
  }
  begin_copies();
}

void MemoryModel::leave(ItemIndex index, Tier tier) {
  Item& item = items_[index];
  if (!has_slower_copy(item)) {
    // Where the plan has a copy already, it has no room elsewhere.
    const Tier target = item.passage.meant_for_disk ? Tier::kDisk : tier;
    item.pending = WaitsToLeave{target};
    // Not ahead of others: the plan has room for all in their order.
    const bool in_turn = target == Tier::kDisk || !waiting_eviction();
    if (!in_turn || !try_leave(index)) waiting_.push_back(index);
    return;
  }
  send(index, EventKind::kEvict, tier);
  note_levels();
  if (tier == Tier::kDisk && state(index) == ResidencyState::kOnHost) start_demotion(index);
}

bool MemoryModel::try_leave(ItemIndex index) {
  Item& item = items_[index];
  const Tier target = *waits_for(item);
  const bool through_host = has_link(LinkKind::kDeviceToHost);
  const bool host_has_room = through_host && item.bytes <= room(Tier::kHost);
  if (target == Tier::kHost && !host_has_room) return false;
  if (target == Tier::kDisk && item.bytes > room(Tier::kDisk)) return false;
  item.pending = {};
  const bool stays_on_host = target == Tier::kHost || host_has_room;
  if (target == Tier::kDisk && stays_on_host) {
    item.passage.goes_on = true;
    promise_disk(item);
  }
  send(index, EventKind::kEvict, stays_on_host ? Tier::kHost : Tier::kDisk);
  note_levels();
  const Copy copy{.item = index,
                  .leg = stays_on_host  ? Leg::kOut
                         : through_host ? Leg::kOutFirst
                                        : Leg::kOutSecond};
  queues_.push(through_host ? LinkKind::kDeviceToHost : LinkKind::kHostToDisk, copy);
  return true;
}

void MemoryModel::demote(ItemIndex index) {
  Item& item = items_[index];
  item.fetch.reset();
  mean_for_disk(index);
  if (state(index) == ResidencyState::kOnHost) {
    start_demotion(index);
  } else if (state(index) == ResidencyState::kEvicting) {
    item.passage.goes_on = true;
    if (item.bytes <= room(Tier::kDisk)) promise_disk(item);
  } else if (waits_for(item)) {
    item.pending = WaitsToLeave{Tier::kDisk};
  }
  begin_copies();
}

void MemoryModel::start_demotion(ItemIndex index) {
  items_[index].pending = WaitsToLeave{Tier::kDisk};
  if (!try_demote(index)) waiting_.push_back(index);
}

bool MemoryModel::try_demote(ItemIndex index) {
  Item& item = items_[index];
  const bool clean = machine_.has_copy(item.id, Tier::kDisk);
  if (!clean && !item.passage.has_room && item.bytes > room(Tier::kDisk)) return false;
  item.pending = {};
  break_promise(item);
  send(index, EventKind::kEvict, Tier::kDisk);
  note_levels();
  if (!clean) queues_.push(LinkKind::kHostToDisk, {.item = index, .leg = Leg::kDemote});
  return true;
}

void MemoryModel::retry_waiting() {
  while (!waiting_.empty()) {
    const ItemIndex index = waiting_.front();
    if (const auto tier = waits_for(items_[index])) {
      const bool left =
          state(index) == ResidencyState::kOnHost ? try_demote(index) : try_leave(index);
      if (!left && tier == Tier::kHost && clear_passage()) continue;
      if (!left) return;
    }
    waiting_.pop_front();
  }
}

std::optional<std::pair<MemoryModel::ItemIndex, Tier>> MemoryModel::waiting_eviction() const {
  for (const ItemIndex index : waiting_) {
    if (const auto tier = waits_for(items_[index])) return {{index, *tier}};
  }
  return std::nullopt;
}

// --- coming back ---

// Even a storage that is still here has to wait for its turn: until then its room is not its own.
// So one that waits to leave goes on waiting to leave, and may yet have to come back.
void MemoryModel::fetch(ItemIndex index) {
  Item& item = items_[index];
  const ResidencyState now = state(index);
  if (now == ResidencyState::kDropped) return;
  if (now == ResidencyState::kResident && !waits_for(item)) return;
  if (!is_here(index) && waits_for(item)) item.pending = {};
  break_promise(item);
  // The machine would fetch as soon as a demotion ends, room or not; so the host keeps its copy.
  if (now == ResidencyState::kDemoting) send(index, EventKind::kEvict, Tier::kHost);
  if (!item.fetch) queue_fetch(index, {});
  begin_copies();
}

bool MemoryModel::demand(ItemIndex index) {
  Item& item = items_[index];
  const ResidencyState now = state(index);
  if (const auto demanded = as_demanded(index)) demanded_.push_back(*demanded);
  if (is_here(index) || now == ResidencyState::kFetching) {
    // From now on, so that its eviction does not end while computing waits for something else. A
    // fetch of it that waits for its turn is over as well: an op's use comes ahead of all.
    keep(item);
    const bool forget = item.fetch && item.fetch->forgets;
    item.fetch.reset();
    if (forget) {
      send(index, EventKind::kWrite);
    } else if (now != ResidencyState::kResident) {
      send(index, EventKind::kUse);
    }
    if (now == ResidencyState::kFetching) begin_copies();
    return false;
  }
  const bool asked_for = item.fetch.has_value();
  if (!asked_for || !item.fetch->urgent) {
    QueuedFetch wanted = item.fetch.value_or(QueuedFetch{});
    wanted.urgent = true;
    fetch(index);
    queue_fetch(index, wanted);
  }
  begin_copies();
  return !asked_for;
}

std::optional<MemoryModel::Demanded> MemoryModel::as_demanded(ItemIndex index) const {
  const Item& item = items_[index];
  const ResidencyState now = state(index);
  const auto waits = waits_for(item);
  if (now == ResidencyState::kResident && !waits) return std::nullopt;
  const bool on_disk = now == ResidencyState::kOnDisk || item.passage.meant_for_disk;
  return Demanded{.item = index,
                  .tier = waits.value_or(on_disk ? Tier::kDisk : Tier::kHost),
                  .was_leaving = waits.has_value() || now == ResidencyState::kEvicting,
                  .fetch = item.fetch};
}

// The plan evicts a, fetches b into its room and forgets b's copy on the host, which makes room
// there for evicting c. If an op needs a before it has left, or before b has come, b gets no room,
// so c gets none on the host, and the op none beside a and c.
bool MemoryModel::give_way() {
  if (gave_way_) return false;
  gave_way_ = true;
  bool any = false;
  const bool keeps_room = std::exchange(room_is_for_computing_, false);
  for (const Demanded& demanded : std::exchange(demanded_, {})) {
    const ItemIndex index = demanded.item;
    Item& item = items_[index];
    if (item.fetch && item.fetch->urgent) {
      queue_fetch(index, {.forgets = item.fetch->forgets, .order = item.fetch->order});
    } else if (state(index) == ResidencyState::kResident &&
               (demanded.was_leaving || has_slower_copy(item))) {
      evict(index, demanded.tier);
      if (demanded.fetch) queue_fetch(index, *demanded.fetch);
    } else {
      continue;
    }
    any = true;
  }
  begin_copies();
  room_is_for_computing_ = keeps_room;
  return any;
}

void MemoryModel::queue_fetch(ItemIndex index, QueuedFetch fetch) {
  Item& item = items_[index];
  if (fetch.order == 0) fetch.order = ++fetches_queued_;
  item.fetch = fetch;
  ++item.ticket;
  const bool from_host = state(index) != ResidencyState::kOnDisk;
  const Copy copy{.item = index,
                  .ticket = item.ticket,
                  .leg = from_host ? Leg::kIn : Leg::kInFirst,
                  .order = fetch.order};
  const LinkKind link = from_host ? LinkKind::kHostToDevice : LinkKind::kDiskToHost;
  if (fetch.urgent) {
    queues_.push_urgent(link, copy);
  } else {
    queues_.push_in_order(link, copy);
  }
}

void MemoryModel::forget(ItemIndex index) {
  Item& item = items_[index];
  if (item.fetch) {
    item.fetch->forgets = true;
  } else if (const ResidencyState now = state(index); now == ResidencyState::kResident ||
                                                      now == ResidencyState::kEvicting ||
                                                      now == ResidencyState::kFetching) {
    // As if an op were to write: the slower copies are given up, at once or when the copy ends.
    send(index, EventKind::kWrite);
    note_levels();
  }
  begin_copies();
}

void MemoryModel::drop(ItemIndex index) {
  Item& item = items_[index];
  item.fetch.reset();
  item.pending = {};
  break_promise(item);
  if (is_moving(index)) {
    item.pending = IsDroppedNext{};
    return;
  }
  measurements_.report().dropped += item.bytes;
  send(index, EventKind::kDrop);
  note_levels();
  begin_copies();
}

// --- computing ---

void MemoryModel::use(ItemIndex index, bool writes) {
  keep(items_[index]);
  send(index, writes ? EventKind::kWrite : EventKind::kUse);
  if (actions_.empty()) return;
  note_levels();
  begin_copies();
}

void MemoryModel::die(ItemIndex index) {
  Item& item = items_[index];
  item.fetch.reset();
  item.pending = {};
  break_promise(item);
  send(index, EventKind::kDie);
  note_levels();
  begin_copies();
}

// A recomputed storage has no slower copies, and their room is another's by the plan.
bool MemoryModel::withdraw_drop(ItemIndex index) {
  Item& item = items_[index];
  if (!std::holds_alternative<IsDroppedNext>(item.pending)) return false;
  item.pending = {};
  if (state(index) == ResidencyState::kDemoting) {
    fetch(index);  // stays queued until the demotion has ended
    item.fetch->forgets = true;
  } else {
    send(index, EventKind::kWrite);
  }
  return true;
}

void MemoryModel::begin_recomputation(ItemIndex index) {
  send(index, EventKind::kUse);
  note_levels();
}

void MemoryModel::end_recomputation(ItemIndex index) { send(index, EventKind::kCopyCompleted); }

void MemoryModel::keep_room_for_computing(bool keep) {
  room_is_for_computing_ = keep;
  if (keep) return;
  demanded_.clear();
  gave_way_ = false;
  begin_copies();
}

bool MemoryModel::admit_fetches() {
  if (!std::exchange(room_is_for_computing_, false)) return false;
  begin_copies();
  room_is_for_computing_ = true;
  return queues_.first_to_end().has_value();
}

void MemoryModel::hold(Bytes bytes) {
  held_ += bytes;
  note_levels();
}

void MemoryModel::release(Bytes bytes) {
  held_ -= bytes;
  note_levels();
  begin_copies();
}

// --- copies ---

TimeNs MemoryModel::duration(LinkKind link, const Copy& copy) const {
  const Bytes bytes = items_[copy.item].bytes;
  TimeNs time = copy_time(*problem_.machine.link(link), bytes);
  if (copy.leg == Leg::kIn || copy.leg == Leg::kInFirst) {
    const std::uint64_t pages = round_up(bytes, kPageBytes.count).count / kPageBytes.count;
    time += page_fault_ns_ * static_cast<TimeNs>(pages);
  }
  return time;
}

bool MemoryModel::is_void(const Copy& copy) const {
  if (copy.leg != Leg::kIn && copy.leg != Leg::kInFirst) return false;
  const Item& item = items_[copy.item];
  return !item.fetch || item.ticket != copy.ticket;
}

// Fetches take room in the order in which they were queued, whichever link they come over: else one
// that came late could take what an earlier one, held up by its link, was queued for.
Bytes MemoryModel::owed_to_earlier(LinkKind link, const Copy& copy) const {
  Bytes owed{};
  if (items_[copy.item].fetch->urgent) return owed;
  const LinkKind other =
      link == LinkKind::kHostToDevice ? LinkKind::kDiskToHost : LinkKind::kHostToDevice;
  for (const Copy& ahead : queues_.urgent(other)) {
    if (!is_void(ahead)) owed += items_[ahead.item].bytes;
  }
  for (const Copy& earlier : queues_.in_turn(other)) {
    if (earlier.order < copy.order && !is_void(earlier)) owed += items_[earlier.item].bytes;
  }
  return owed;
}

void MemoryModel::begin_copies() {
  retry_waiting();
  for (const LinkKind link : kLinks) {
    const bool fills = link == LinkKind::kHostToDevice || link == LinkKind::kDiskToHost;
    std::optional<Copy> copy;
    do {
      copy = queues_.next(link, fills && room_is_for_computing_,
                          [this](const Copy& next) { return is_void(next); });
    } while (copy && begin_copy(link, *copy));
  }
}

/// False if it has to wait at the head of its queue.
bool MemoryModel::begin_copy(LinkKind link, const Copy& copy) {
  if (copy.leg == Leg::kIn || copy.leg == Leg::kInFirst) {
    const auto begun = begin_fetch(link, copy);
    if (begun != Begun::kWithACopy) return begun == Begun::kWithout;
  }
  const Item& item = items_[copy.item];
  const TimeNs time = duration(link, copy);
  queues_.start_next(link, now_, time);
  measurements_.note_copy(link, now_, now_ + time, op_, item.storage, item.bytes);
  return true;
}

MemoryModel::Begun MemoryModel::begin_fetch(LinkKind link, const Copy& copy) {
  Item& item = items_[copy.item];
  const ResidencyState now = state(copy.item);
  if (now == ResidencyState::kDemoting) return Begun::kNot;
  if (now == ResidencyState::kOnDisk && copy.leg == Leg::kIn) {
    // It went on to the disk while it waited: the same turn, on the other link.
    Copy moved = copy;
    moved.leg = Leg::kInFirst;
    moved.ticket = ++item.ticket;
    if (item.fetch->urgent) {
      queues_.push_urgent(LinkKind::kDiskToHost, moved);
    } else {
      queues_.push_in_order(LinkKind::kDiskToHost, moved);
    }
    return Begun::kWithout;
  }
  const bool holds_room = is_here(copy.item) || now == ResidencyState::kFetching;
  const Bytes more = holds_room ? Bytes{} : item.bytes;
  if (!has_room(more + owed_to_earlier(link, copy))) return Begun::kNot;
  const bool forget = std::exchange(item.fetch, std::nullopt)->forgets;
  keep(item);
  if (now != ResidencyState::kDropped) {
    send(copy.item, forget ? EventKind::kWrite : EventKind::kUse);
    note_levels();
  }
  const bool copies = now == ResidencyState::kOnHost || now == ResidencyState::kOnDisk;
  return copies ? Begun::kWithACopy : Begun::kWithout;
}

void MemoryModel::end_copy(LinkKind link) {
  const Copy copy = queues_.finish(link).copy;
  if (copy.leg == Leg::kOutFirst) {
    queues_.push(LinkKind::kHostToDisk, {.item = copy.item, .leg = Leg::kOutSecond});
  } else if (copy.leg == Leg::kInFirst && has_link(LinkKind::kHostToDevice)) {
    queues_.push_second(LinkKind::kHostToDevice, {.item = copy.item, .leg = Leg::kInSecond});
  } else {
    send(copy.item, EventKind::kCopyCompleted);
    settle(copy.item);
  }
  begin_copies();
}

// Requests that came while the copy was in flight.
void MemoryModel::settle(ItemIndex index) {
  note_levels();
  Item& item = items_[index];
  if (!machine_.contains(item.id)) return;
  if (std::holds_alternative<IsDroppedNext>(item.pending)) return drop(index);
  const ResidencyState now = state(index);
  std::optional<Tier> leaves_for;
  if (const auto* again = std::get_if<LeavesAgain>(&item.pending)) {
    leaves_for = again->tier;
    item.pending = {};
  }
  if (now == ResidencyState::kResident) {
    break_promise(item);
    if (leaves_for) leave(index, *leaves_for);
    return;
  }
  if (now == ResidencyState::kOnHost && std::exchange(item.passage.goes_on, false)) {
    start_demotion(index);
  }
}

void MemoryModel::advance(TimeNs time) {
  for (auto link = queues_.first_to_end(); link && queues_.end_of(*link) <= time;
       link = queues_.first_to_end()) {
    now_ = queues_.end_of(*link);
    end_copy(*link);
  }
  now_ = std::max(now_, time);
}

bool MemoryModel::step_to_next_end() {
  const auto link = queues_.first_to_end();
  if (!link) return false;
  advance(queues_.end_of(*link));
  return true;
}

}  // namespace spillway::planning::sim
