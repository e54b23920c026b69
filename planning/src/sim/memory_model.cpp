// SPDX-License-Identifier: Apache-2.0
#include "memory_model.hpp"

#include <algorithm>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::planning::sim {

using residency::ActionKind;
using residency::EventKind;
using residency::ResidencyState;

MemoryModel::MemoryModel(const Problem& problem, TimeNs page_fault_ns, Measurements& measurements,
                         TransitionObserver* observer)
    : problem_(problem),
      page_fault_ns_(page_fault_ns),
      measurements_(measurements),
      observer_(observer) {}

void MemoryModel::send(ItemIndex item, EventKind kind, Tier tier) {
  actions_.clear();
  const residency::Event event{kind, items_[item].id, tier};
  machine_.on(event, now_, actions_);
  if (observer_ != nullptr) observer_->on_event(event, now_, actions_);
}

MemoryModel::ItemIndex MemoryModel::create(StorageId storage, Bytes bytes) {
  const auto index = static_cast<ItemIndex>(items_.size());
  items_.push_back({.id = machine_.create(bytes), .storage = storage, .bytes = bytes});
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
  if (item.fetch_queued || item.waits_to_leave || item.fetch_next) return true;
  const ResidencyState now = state(index);
  return now == ResidencyState::kEvicting || now == ResidencyState::kDemoting ||
         now == ResidencyState::kFetching;
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
  withdraw_fetch(item);
  item.fetch_next = false;
  switch (state(index)) {
    case ResidencyState::kResident:
      leave(index, tier);
      break;
    case ResidencyState::kOnHost:
      if (tier == Tier::kDisk) demote(index);
      break;
    case ResidencyState::kEvicting:
    case ResidencyState::kDemoting:
    case ResidencyState::kFetching:
      send(index, EventKind::kEvict, tier);  // it is not wanted any more
      break;
    default:
      break;
  }
  begin_copies();
}

void MemoryModel::leave(ItemIndex index, Tier tier) {
  Item& item = items_[index];
  if (!has_slower_copy(item)) {
    item.leaves_for = tier;
    item.waits_to_leave = true;
    if (!try_leave(index)) waiting_.push_back(index);
    return;
  }
  send(index, EventKind::kEvict, tier);
  note_levels();
  if (tier == Tier::kDisk && state(index) == ResidencyState::kOnHost) start_demotion(index);
}

bool MemoryModel::try_leave(ItemIndex index) {
  Item& item = items_[index];
  const bool through_host = has_link(LinkKind::kDeviceToHost);
  const bool host_has_room = through_host && item.bytes <= room(Tier::kHost);
  if (item.leaves_for == Tier::kHost && !host_has_room) return false;
  if (item.leaves_for == Tier::kDisk && item.bytes > room(Tier::kDisk)) return false;
  item.waits_to_leave = false;
  const bool stays_on_host = item.leaves_for == Tier::kHost || host_has_room;
  if (item.leaves_for == Tier::kDisk && stays_on_host) {
    item.demote_next = true;
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

void MemoryModel::promise_disk(Item& item) {
  if (item.disk_is_promised) return;
  item.disk_is_promised = true;
  promised_disk_ += item.bytes;
}

void MemoryModel::break_promise(Item& item) {
  item.demote_next = false;
  if (!item.disk_is_promised) return;
  item.disk_is_promised = false;
  promised_disk_ -= item.bytes;
}

void MemoryModel::demote(ItemIndex index) {
  Item& item = items_[index];
  withdraw_fetch(item);
  item.fetch_next = false;
  if (state(index) == ResidencyState::kOnHost) {
    start_demotion(index);
  } else if (state(index) == ResidencyState::kEvicting) {
    item.demote_next = true;
    if (item.bytes <= room(Tier::kDisk)) promise_disk(item);
  }
  begin_copies();
}

void MemoryModel::start_demotion(ItemIndex index) {
  Item& item = items_[index];
  item.leaves_for = Tier::kDisk;
  item.waits_to_leave = true;
  if (!try_demote(index)) waiting_.push_back(index);
}

bool MemoryModel::try_demote(ItemIndex index) {
  Item& item = items_[index];
  const bool clean = machine_.has_copy(item.id, Tier::kDisk);
  if (!clean && !item.disk_is_promised && item.bytes > room(Tier::kDisk)) return false;
  item.waits_to_leave = false;
  break_promise(item);
  send(index, EventKind::kEvict, Tier::kDisk);
  note_levels();
  if (!clean) queues_.push(LinkKind::kHostToDisk, {.item = index, .leg = Leg::kDemote});
  return true;
}

void MemoryModel::retry_waiting() {
  while (!waiting_.empty()) {
    const ItemIndex index = waiting_.front();
    if (items_[index].waits_to_leave) {
      const bool left =
          state(index) == ResidencyState::kOnHost ? try_demote(index) : try_leave(index);
      if (!left) return;
    }
    waiting_.pop_front();
  }
}

std::optional<std::pair<MemoryModel::ItemIndex, Tier>> MemoryModel::waiting_eviction() const {
  for (const ItemIndex index : waiting_) {
    if (items_[index].waits_to_leave) return {{index, items_[index].leaves_for}};
  }
  return std::nullopt;
}

// --- coming back ---

void MemoryModel::fetch(ItemIndex index) {
  Item& item = items_[index];
  switch (state(index)) {
    case ResidencyState::kResident:
      item.waits_to_leave = false;
      break;
    case ResidencyState::kEvicting:
      break_promise(item);
      send(index, EventKind::kUse);
      break;
    case ResidencyState::kFetching:
      send(index, EventKind::kUse);
      break;
    case ResidencyState::kDemoting:
      // The machine would fetch at once, without room; so the host keeps its copy, to be fetched.
      send(index, EventKind::kEvict, Tier::kHost);
      item.fetch_next = true;
      break;
    case ResidencyState::kOnHost:
    case ResidencyState::kOnDisk:
      item.waits_to_leave = false;
      break_promise(item);
      if (!item.fetch_queued) queue_fetch(index, false);
      break;
    default:
      break;
  }
  begin_copies();
}

bool MemoryModel::demand(ItemIndex index) {
  Item& item = items_[index];
  const ResidencyState now = state(index);
  if (is_here(index)) {
    item.waits_to_leave = false;
    return false;
  }
  const bool asked_for = item.fetch_queued || item.fetch_next || now == ResidencyState::kFetching;
  if (item.fetch_queued) {
    if (!item.urgent) queue_fetch(index, true);
  } else if (now == ResidencyState::kOnHost || now == ResidencyState::kOnDisk) {
    item.waits_to_leave = false;
    break_promise(item);
    queue_fetch(index, true);
  } else {
    item.urgent = true;  // for when it can be queued
    fetch(index);
  }
  begin_copies();
  return !asked_for;
}

void MemoryModel::queue_fetch(ItemIndex index, bool urgent) {
  Item& item = items_[index];
  item.fetch_queued = true;
  item.urgent = urgent;
  ++item.ticket;
  const bool from_host = state(index) == ResidencyState::kOnHost;
  const Copy copy{
      .item = index, .ticket = item.ticket, .leg = from_host ? Leg::kIn : Leg::kInFirst};
  const LinkKind link = from_host ? LinkKind::kHostToDevice : LinkKind::kDiskToHost;
  if (urgent) {
    queues_.push_urgent(link, copy);
  } else {
    queues_.push(link, copy);
  }
}

void MemoryModel::withdraw_fetch(Item& item) {
  item.fetch_queued = false;
  item.forget_on_arrival = false;
}

void MemoryModel::forget(ItemIndex index) {
  Item& item = items_[index];
  if (item.fetch_queued || item.fetch_next) {
    item.forget_on_arrival = true;
  } else if (state(index) == ResidencyState::kResident ||
             state(index) == ResidencyState::kFetching) {
    // As if an op were to write: the slower copies are given up, at once or on arrival.
    send(index, EventKind::kWrite);
    note_levels();
  }
  begin_copies();
}

void MemoryModel::drop(ItemIndex index) {
  Item& item = items_[index];
  withdraw_fetch(item);
  item.fetch_next = item.waits_to_leave = false;
  break_promise(item);
  if (is_moving(index)) {
    item.drop_next = true;
    return;
  }
  measurements_.report().dropped += item.bytes;
  send(index, EventKind::kDrop);
  note_levels();
  begin_copies();
}

// --- computing ---

void MemoryModel::use(ItemIndex index, bool writes) {
  send(index, writes ? EventKind::kWrite : EventKind::kUse);
  if (actions_.empty()) return;
  note_levels();
  begin_copies();
}

void MemoryModel::die(ItemIndex index) {
  Item& item = items_[index];
  withdraw_fetch(item);
  item.fetch_next = item.drop_next = item.waits_to_leave = false;
  break_promise(item);
  send(index, EventKind::kDie);
  note_levels();
  begin_copies();
}

void MemoryModel::begin_recomputation(ItemIndex index) {
  send(index, EventKind::kUse);
  note_levels();
}

void MemoryModel::end_recomputation(ItemIndex index) { send(index, EventKind::kCopyCompleted); }

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

void MemoryModel::begin_copies() {
  retry_waiting();
  const auto is_void = [this](const Copy& copy) {
    if (copy.leg != Leg::kIn && copy.leg != Leg::kInFirst) return false;
    const Item& item = items_[copy.item];
    return !item.fetch_queued || item.ticket != copy.ticket;
  };
  for (const LinkKind link : kLinks) {
    const bool fills = link == LinkKind::kHostToDevice || link == LinkKind::kDiskToHost;
    const auto copy = queues_.next(link, fills && room_is_for_computing_, is_void);
    if (copy) begin_copy(link, *copy);
  }
}

void MemoryModel::begin_copy(LinkKind link, const Copy& copy) {
  Item& item = items_[copy.item];
  if (copy.leg == Leg::kIn || copy.leg == Leg::kInFirst) {
    if (!has_room(item.bytes)) return;
    item.fetch_queued = false;
    const bool forget = std::exchange(item.forget_on_arrival, false);
    send(copy.item, forget ? EventKind::kWrite : EventKind::kUse);
    note_levels();
  }
  const TimeNs time = duration(link, copy);
  queues_.start_next(link, now_, time);
  measurements_.note_copy(link, now_, now_ + time, op_, item.storage, item.bytes);
}

void MemoryModel::end_copy(LinkKind link) {
  const Copy copy = queues_.finish(link).copy;
  if (copy.leg == Leg::kOutFirst) {
    queues_.push(LinkKind::kHostToDisk, {.item = copy.item, .leg = Leg::kOutSecond});
  } else if (copy.leg == Leg::kInFirst && has_link(LinkKind::kHostToDevice)) {
    queues_.push_urgent(LinkKind::kHostToDevice, {.item = copy.item, .leg = Leg::kInSecond});
  } else {
    send(copy.item, EventKind::kCopyCompleted);
    settle(copy.item);
  }
  begin_copies();
}

// What was asked for while the copy was in flight.
void MemoryModel::settle(ItemIndex index) {
  note_levels();
  Item& item = items_[index];
  if (!machine_.contains(item.id)) return;
  if (std::exchange(item.drop_next, false)) return drop(index);
  const ResidencyState now = state(index);
  if (now == ResidencyState::kResident) break_promise(item);
  if (now != ResidencyState::kOnHost && now != ResidencyState::kOnDisk) return;
  if (std::exchange(item.fetch_next, false)) {
    queue_fetch(index, item.urgent);
  } else if (now == ResidencyState::kOnHost && std::exchange(item.demote_next, false)) {
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
