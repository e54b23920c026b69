// SPDX-License-Identifier: Apache-2.0
#include "spillway/residency/residency_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "spillway/base/error.hpp"

namespace spillway::residency {
namespace {

// No event yields more: the worst is a failed copy that reports, frees three tiers and wakes.
constexpr std::size_t kMostActions = 6;
constexpr unsigned kGenerationShift = 32;

StorageId make_id(std::uint32_t generation, std::size_t index) {
  return StorageId{(std::uint64_t{generation} << kGenerationShift) | index};
}
std::size_t index_of_slot(StorageId id) {
  return static_cast<std::size_t>(to_value(id) & std::numeric_limits<std::uint32_t>::max());
}
std::uint32_t generation_of(StorageId id) {
  return static_cast<std::uint32_t>(to_value(id) >> kGenerationShift);
}

[[noreturn]] void refuse(const Event& event, ResidencyState state, const char* reason) {
  throw InternalError(fmt::format("residency: {}; event {} (tier {}) for storage {:#x} in state {}",
                                  reason, to_string(event.kind), to_string(event.tier),
                                  to_value(event.id), to_string(state)));
}

}  // namespace

std::string_view to_string(ResidencyState state) {
  constexpr std::array<std::string_view, 8> kNames{"Resident", "Evicting", "OnHost",  "Demoting",
                                                   "OnDisk",   "Fetching", "Dropped", "Exempt"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view to_string(EventKind kind) {
  constexpr std::array<std::string_view, 10> kNames{
      "Use",     "Write",         "Evict",      "Drop",   "Exempt",
      "Readmit", "CopyCompleted", "CopyFailed", "Cancel", "Die"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(ActionKind kind) {
  constexpr std::array<std::string_view, 7> kNames{
      "StartCopy", "FreeMemory", "Revoke", "Grant", "Recompute", "Wake", "ReportFailure"};
  return kNames[static_cast<std::size_t>(kind)];
}

StorageId ResidencyMachine::create(Bytes bytes) {
  if (unused_.empty()) {
    SPILLWAY_CHECK(slots_.size() < std::numeric_limits<std::uint32_t>::max(),
                   fmt::format("{} storages live", slots_.size()));
    slots_.emplace_back();
    // Room for every slot, so that a death never allocates.
    if (unused_.capacity() < slots_.size()) unused_.reserve(slots_.capacity());
    unused_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
  }
  const std::uint32_t index = unused_.back();
  unused_.pop_back();
  Slot& slot = slots_[index];
  const std::uint32_t generation = slot.generation;
  slot = Slot{};
  slot.generation = generation;
  slot.bytes = bytes;
  slot.live = true;
  hold(slot, Tier::kDevice);
  slot.copies.add(Tier::kDevice);
  ++live_;
  return make_id(generation, index);
}

const ResidencyMachine::Slot* ResidencyMachine::find(StorageId id) const {
  if (index_of_slot(id) >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index_of_slot(id)];
  return slot.live && slot.generation == generation_of(id) ? &slot : nullptr;
}

const ResidencyMachine::Slot& ResidencyMachine::at(StorageId id) const {
  const Slot* slot = find(id);
  SPILLWAY_CHECK(slot != nullptr, fmt::format("storage {:#x} is unknown or dead", to_value(id)));
  return *slot;
}

bool ResidencyMachine::contains(StorageId id) const { return find(id) != nullptr; }
ResidencyState ResidencyMachine::state(StorageId id) const { return at(id).state; }
bool ResidencyMachine::has_copy(StorageId id, Tier tier) const { return at(id).copies.has(tier); }
Bytes ResidencyMachine::size(StorageId id) const { return at(id).bytes; }

void ResidencyMachine::on(const Event& event, TimeNs now, std::vector<Action>& actions) {
  const Slot& slot = at(event.id);
  if (event.kind == EventKind::kEvict && event.tier == Tier::kDevice) {
    refuse(event, slot.state, "an eviction needs a tier slower than the device");
  }
  if (actions.capacity() - actions.size() < kMostActions) {
    actions.reserve(std::max(actions.capacity() * 2, actions.size() + kMostActions));
  }
  Turn turn{slots_[index_of_slot(event.id)], event.id, now, actions};
  dispatch(turn, event);
}

void ResidencyMachine::dispatch(Turn& turn, const Event& event) {
  Slot& slot = turn.slot;
  if (slot.flight.dying) return on_dying(turn, event);
  if (in_flight(slot.state)) return on_in_flight(turn, event);
  switch (event.kind) {
    case EventKind::kCopyCompleted:
    case EventKind::kCopyFailed:
      refuse(event, slot.state, "no copy is in flight");
    case EventKind::kDie:
      return die(turn);
    case EventKind::kCancel:
      return;
    default:
      break;
  }
  if (slot.state == ResidencyState::kResident) return on_resident(turn, event);
  if (slot.state != ResidencyState::kExempt) return on_away(turn, event);
  if (event.kind == EventKind::kReadmit) slot.state = ResidencyState::kResident;
}

void ResidencyMachine::on_resident(Turn& turn, const Event& event) {
  Slot& slot = turn.slot;
  switch (event.kind) {
    case EventKind::kWrite:
      return free_slower(turn);
    case EventKind::kEvict:
      if (slot.copies.has(Tier::kHost) || slot.copies.has(Tier::kDisk)) return leave_cleanly(turn);
      ++statistics_.evictions;
      statistics_.evicted += slot.bytes;
      return start_copy(turn, Tier::kDevice, event.tier, ResidencyState::kEvicting);
    case EventKind::kDrop:
      emit(turn, ActionKind::kRevoke);
      free_all(turn);
      slot.state = ResidencyState::kDropped;
      return;
    case EventKind::kExempt:
      free_slower(turn);
      slot.state = ResidencyState::kExempt;
      return;
    default:
      return;
  }
}

void ResidencyMachine::on_away(Turn& turn, const Event& event) {
  Slot& slot = turn.slot;
  switch (event.kind) {
    case EventKind::kUse:
      return bring_in(turn);
    case EventKind::kWrite:
      slot.flight.written = true;
      return bring_in(turn);
    case EventKind::kExempt:
      slot.flight.written = slot.flight.exempting = true;
      return bring_in(turn);
    case EventKind::kEvict:
      if (slot.state == ResidencyState::kOnHost && event.tier == Tier::kDisk) demote(turn);
      return;
    case EventKind::kDrop:
      free_all(turn);
      slot.state = ResidencyState::kDropped;
      return;
    default:
      return;
  }
}

void ResidencyMachine::on_in_flight(Turn& turn, const Event& event) {
  Flight& flight = turn.slot.flight;
  switch (event.kind) {
    case EventKind::kUse:
      flight.wanted = true;
      return;
    case EventKind::kWrite:
      flight.wanted = flight.written = true;
      return;
    case EventKind::kExempt:
      flight.wanted = flight.written = flight.exempting = true;
      return;
    case EventKind::kReadmit:
      flight.exempting = false;
      return;
    case EventKind::kEvict:
      return evict_in_flight(turn.slot, event.tier);
    case EventKind::kCancel:
      return cancel(turn.slot);
    case EventKind::kDrop:
      return;
    case EventKind::kDie:
      flight.dying = true;
      return;
    case EventKind::kCopyCompleted:
    case EventKind::kCopyFailed:
      return end_copy(turn, event.kind == EventKind::kCopyCompleted);
  }
}

void ResidencyMachine::evict_in_flight(Slot& slot, Tier tier) {
  Flight& flight = slot.flight;
  if (slot.state == ResidencyState::kEvicting) {
    // The bytes are accessible: after a write the copy may be half old and half new.
    if (!flight.written) flight.wanted = false;
    return;
  }
  if (flight.exempting) return;
  flight.wanted = false;
  if (slot.state == ResidencyState::kDemoting) flight.keep_host = tier == Tier::kHost;
}

void ResidencyMachine::cancel(Slot& slot) {
  Flight& flight = slot.flight;
  if (slot.state == ResidencyState::kFetching && flight.exempting) return;
  flight.cancelled = true;
  if (slot.state == ResidencyState::kEvicting) flight.wanted = true;
  if (slot.state == ResidencyState::kDemoting) flight.keep_host = true;
  if (slot.state == ResidencyState::kFetching) flight.wanted = false;
}

void ResidencyMachine::on_dying(Turn& turn, const Event& event) {
  switch (event.kind) {
    case EventKind::kCopyCompleted:
      return end_copy_of_dead(turn, true);
    case EventKind::kCopyFailed:
      return end_copy_of_dead(turn, false);
    case EventKind::kEvict:
    case EventKind::kDrop:
    case EventKind::kCancel:
      return;  // what a policy asks for may cross a death
    case EventKind::kUse:
    case EventKind::kWrite:
    case EventKind::kExempt:
    case EventKind::kReadmit:
    case EventKind::kDie:
      refuse(event, turn.slot.state, "the storage died");
  }
}

void ResidencyMachine::end_copy(Turn& turn, bool completed) {
  if (turn.slot.state == ResidencyState::kEvicting) return end_eviction(turn, completed);
  if (turn.slot.state == ResidencyState::kDemoting) return end_demotion(turn, completed);
  end_fetch(turn, completed);
}

void ResidencyMachine::end_eviction(Turn& turn, bool completed) {
  Slot& slot = turn.slot;
  const Flight flight = slot.flight;
  count_end(turn, completed);
  if (completed && !flight.written) {
    slot.copies.add(slot.to);
  } else {
    free_memory(turn, slot.to);
  }
  if (!completed && !flight.cancelled) emit(turn, ActionKind::kReportFailure, slot.from, slot.to);
  if (completed && !flight.wanted) {
    emit(turn, ActionKind::kRevoke);
    free_memory(turn, Tier::kDevice);
    return settle(turn, without_device(slot));
  }
  if (completed) ++statistics_.rescued_evictions;
  settle(turn, flight.exempting ? ResidencyState::kExempt : ResidencyState::kResident);
}

void ResidencyMachine::end_demotion(Turn& turn, bool completed) {
  Slot& slot = turn.slot;
  const Flight flight = slot.flight;
  count_end(turn, completed);
  if (completed) {
    slot.copies.add(Tier::kDisk);
  } else {
    free_memory(turn, Tier::kDisk);
    if (!flight.cancelled) emit(turn, ActionKind::kReportFailure, slot.from, slot.to);
  }
  if (flight.wanted) {
    slot.flight.cancelled = slot.flight.keep_host = false;
    return bring_in(turn);
  }
  if (!completed || flight.keep_host) return settle(turn, ResidencyState::kOnHost);
  free_memory(turn, Tier::kHost);
  settle(turn, ResidencyState::kOnDisk);
}

void ResidencyMachine::end_fetch(Turn& turn, bool completed) {
  Slot& slot = turn.slot;
  const Flight flight = slot.flight;
  count_end(turn, completed);
  if (completed && flight.wanted) {
    slot.copies.add(Tier::kDevice);
    if (flight.written) free_slower(turn);
    emit(turn, ActionKind::kGrant);
    return settle(turn, flight.exempting ? ResidencyState::kExempt : ResidencyState::kResident);
  }
  // A write that was noted does not count: nothing could reach the bytes, so copies are current.
  if (completed) {
    ++statistics_.unwanted_fetches;
    emit(turn, ActionKind::kRevoke);
  }
  free_memory(turn, Tier::kDevice);
  if (!completed && !flight.cancelled) emit(turn, ActionKind::kReportFailure, slot.from, slot.to);
  settle(turn, without_device(slot));
}

void ResidencyMachine::end_copy_of_dead(Turn& turn, bool completed) {
  count_end(turn, completed);
  free_all(turn);
  emit(turn, ActionKind::kWake);
  retire(turn);
}

void ResidencyMachine::count_end(Turn& turn, bool completed) {
  if (!completed) ++statistics_.failed_copies;
  statistics_.copying_ns += std::max<TimeNs>(turn.now - turn.slot.started, 0);
}

ResidencyState ResidencyMachine::without_device(const Slot& slot) {
  if (slot.copies.has(Tier::kHost)) return ResidencyState::kOnHost;
  return slot.copies.has(Tier::kDisk) ? ResidencyState::kOnDisk : ResidencyState::kDropped;
}

void ResidencyMachine::demote(Turn& turn) {
  Slot& slot = turn.slot;
  if (slot.copies.has(Tier::kDisk)) {
    free_memory(turn, Tier::kHost);
    slot.state = ResidencyState::kOnDisk;
    return;
  }
  ++statistics_.demotions;
  statistics_.demoted += slot.bytes;
  start_copy(turn, Tier::kHost, Tier::kDisk, ResidencyState::kDemoting);
}

void ResidencyMachine::leave_cleanly(Turn& turn) {
  ++statistics_.clean_evictions;
  statistics_.clean_evicted += turn.slot.bytes;
  emit(turn, ActionKind::kRevoke);
  free_memory(turn, Tier::kDevice);
  turn.slot.state = without_device(turn.slot);
}

void ResidencyMachine::bring_in(Turn& turn) {
  Slot& slot = turn.slot;
  slot.flight.wanted = true;
  if (slot.copies.has(Tier::kHost) || slot.copies.has(Tier::kDisk)) {
    ++statistics_.fetches;
    statistics_.fetched += slot.bytes;
    const Tier from = slot.copies.has(Tier::kHost) ? Tier::kHost : Tier::kDisk;
    return start_copy(turn, from, Tier::kDevice, ResidencyState::kFetching);
  }
  ++statistics_.recomputations;
  slot.state = ResidencyState::kFetching;
  slot.from = slot.to = Tier::kDevice;
  slot.started = turn.now;
  hold(slot, Tier::kDevice);
  emit(turn, ActionKind::kRecompute);
}

void ResidencyMachine::start_copy(Turn& turn, Tier from, Tier to, ResidencyState during) {
  Slot& slot = turn.slot;
  slot.state = during;
  slot.from = from;
  slot.to = to;
  slot.started = turn.now;
  hold(slot, to);
  emit(turn, ActionKind::kStartCopy, from, to);
}

void ResidencyMachine::settle(Turn& turn, ResidencyState state) {
  turn.slot.state = state;
  turn.slot.flight = Flight{};
  emit(turn, ActionKind::kWake);
}

void ResidencyMachine::die(Turn& turn) {
  free_all(turn);
  retire(turn);
}

void ResidencyMachine::retire(Turn& turn) {
  Slot& slot = turn.slot;
  slot.live = false;
  --live_;
  // A slot whose generations are used up is left out for good: ids never repeat.
  if (slot.generation == std::numeric_limits<std::uint32_t>::max()) return;
  ++slot.generation;
  unused_.push_back(static_cast<std::uint32_t>(index_of_slot(turn.id)));
}

void ResidencyMachine::emit(Turn& turn, ActionKind kind, Tier from, Tier to) {
  turn.actions.push_back({kind, turn.id, from, to, turn.slot.bytes});
}

void ResidencyMachine::hold(Slot& slot, Tier tier) {
  slot.held.add(tier);
  Bytes& used = used_[index_of(tier)];
  used += slot.bytes;
  Bytes& peak = statistics_.peak[index_of(tier)];
  peak = std::max(peak, used);
}

void ResidencyMachine::free_memory(Turn& turn, Tier tier) {
  Slot& slot = turn.slot;
  if (!slot.held.has(tier)) return;
  slot.held.remove(tier);
  slot.copies.remove(tier);
  used_[index_of(tier)] -= slot.bytes;
  emit(turn, ActionKind::kFreeMemory, tier, tier);
}

void ResidencyMachine::free_slower(Turn& turn) {
  free_memory(turn, Tier::kHost);
  free_memory(turn, Tier::kDisk);
}

void ResidencyMachine::free_all(Turn& turn) {
  free_memory(turn, Tier::kDevice);
  free_slower(turn);
}

}  // namespace spillway::residency
