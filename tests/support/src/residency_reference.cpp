// SPDX-License-Identifier: Apache-2.0
#include "spillway/testing/residency_reference.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace spillway::testing {

using residency::ActionKind;
using residency::EventKind;  // NOLINT(misc-unused-using-decls): its names stand in cases alone
using residency::ResidencyState;

namespace {

ResidencyState state_on(Tier tier) {
  return tier == Tier::kHost ? ResidencyState::kOnHost : ResidencyState::kOnDisk;
}

}  // namespace

std::string_view to_string(Mutation mutation) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(kLastMutation) + 1> kNames{
      "none",
      "read does not keep",
      "spoiled copy counts",
      "evict overrides write",
      "write keeps copies",
      "clean eviction copies",
      "death frees at once",
      "failed eviction leaks",
      "demotion ignores use",
      "fetch drops copies",
      "fetch ignores evict",
      "fetch keeps stale copies",
      "failed fetch goes to disk",
      "cancelled failure reported",
      "exempt keeps copies",
      "exempt lost in demotion",
      "no wake on failure",
      "drop keeps slower copies"};
  return kNames[static_cast<std::size_t>(mutation)];
}

std::string test_name(Mutation mutation) {
  std::string name(to_string(mutation));
  std::ranges::replace(name, ' ', '_');
  return name;
}

bool ResidencyReference::create(StorageId id, Bytes bytes) {
  if (to_value(id) == 0 || !ever_.insert(id).second) return false;
  Storage s;
  s.id = id;
  s.bytes = bytes;
  storages_.emplace(id, std::move(s));
  return true;
}

bool ResidencyReference::has_copy(StorageId id, Tier tier) const {
  return storages_.at(id).copies.contains(tier);
}

Bytes ResidencyReference::used(Tier tier) const {
  Bytes sum{};
  for (const auto& [id, s] : storages_) {
    if (s.held.contains(tier)) sum += s.bytes;
  }
  return sum;
}

std::vector<StorageId> ResidencyReference::live() const {
  std::vector<StorageId> ids;
  for (const auto& [id, s] : storages_) ids.push_back(id);
  return ids;
}

bool ResidencyReference::in_flight(const Storage& s) {
  return s.state == ResidencyState::kEvicting || s.state == ResidencyState::kDemoting ||
         s.state == ResidencyState::kFetching;
}

bool ResidencyReference::dying(const Storage& s) {
  return std::any_of(s.heard.begin(), s.heard.end(),
                     [](const Event& e) { return e.kind == EventKind::kDie; });
}

// Every cell of the tables that says `error`.
bool ResidencyReference::is_error(const Storage& s, const Event& event) const {
  switch (event.kind) {
    case EventKind::kEvict:
      return event.tier == Tier::kDevice;
    case EventKind::kCopyCompleted:
    case EventKind::kCopyFailed:
      return !in_flight(s);
    case EventKind::kUse:
    case EventKind::kWrite:
    case EventKind::kExempt:
    case EventKind::kReadmit:
    case EventKind::kDie:
      return dying(s);
    case EventKind::kDrop:
    case EventKind::kCancel:
      return false;
  }
  return true;
}

std::optional<ResidencyReference::Actions> ResidencyReference::on(const Event& event) {
  const auto found = storages_.find(event.id);
  if (found == storages_.end() || is_error(found->second, event)) return std::nullopt;
  Storage& s = found->second;
  const bool ends = event.kind == EventKind::kCopyCompleted || event.kind == EventKind::kCopyFailed;
  Actions actions;
  bool gone = false;
  if (in_flight(s) && !ends) {
    s.heard.push_back(event);
    if (event.kind == EventKind::kDie && is(Mutation::kDeathFreesAtOnce)) free_all(s, actions);
  } else if (ends) {
    gone = dying(s);
    actions = ended(s, event.kind == EventKind::kCopyCompleted);
  } else if (event.kind == EventKind::kDie) {
    gone = true;
    free_all(s, actions);
  } else {
    actions = settled(s, event);
  }
  if (gone) storages_.erase(found);
  return actions;
}

ResidencyReference::Actions ResidencyReference::settled(Storage& s, const Event& event) {
  if (event.kind == EventKind::kCancel) return {};
  if (s.state == ResidencyState::kExempt) {
    if (event.kind == EventKind::kReadmit) s.state = ResidencyState::kResident;
    return {};
  }
  if (event.kind == EventKind::kReadmit) return {};
  return s.state == ResidencyState::kResident ? resident(s, event) : away(s, event);
}

ResidencyReference::Actions ResidencyReference::resident(Storage& s, const Event& event) {
  Actions actions;
  if (event.kind == EventKind::kWrite && !is(Mutation::kWriteKeepsCopies)) {
    free(s, {Tier::kHost, Tier::kDisk}, actions);
  }
  if (event.kind == EventKind::kExempt) {
    if (!is(Mutation::kExemptKeepsCopies)) free(s, {Tier::kHost, Tier::kDisk}, actions);
    s.state = ResidencyState::kExempt;
  }
  if (event.kind == EventKind::kDrop) {
    actions.push_back({ActionKind::kRevoke, s.id, Tier::kDevice, Tier::kDevice, s.bytes});
    if (is(Mutation::kDropKeepsSlowerCopies)) {
      free(s, {Tier::kDevice}, actions);
    } else {
      free_all(s, actions);
    }
    s.state = ResidencyState::kDropped;
  }
  if (event.kind == EventKind::kEvict) return leave(s, event);
  return actions;
}

ResidencyReference::Actions ResidencyReference::leave(Storage& s, const Event& event) {
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    if (!s.copies.contains(tier) || is(Mutation::kCleanEvictionCopies)) continue;
    Actions actions{{ActionKind::kRevoke, s.id, Tier::kDevice, Tier::kDevice, s.bytes}};
    free(s, {Tier::kDevice}, actions);
    s.state = state_on(tier);
    return actions;
  }
  return fly(s, Tier::kDevice, event.tier, ResidencyState::kEvicting);
}

ResidencyReference::Actions ResidencyReference::away(Storage& s, const Event& event) {
  Actions actions;
  switch (event.kind) {
    case EventKind::kUse:
    case EventKind::kWrite:
    case EventKind::kExempt:
      return fetch(s, {event});
    case EventKind::kDrop:
      free_all(s, actions);
      s.state = ResidencyState::kDropped;
      return actions;
    default:
      break;
  }
  const bool demotes = event.kind == EventKind::kEvict && event.tier == Tier::kDisk &&
                       s.state == ResidencyState::kOnHost;
  if (!demotes) return {};
  if (!s.copies.contains(Tier::kDisk)) {
    return fly(s, Tier::kHost, Tier::kDisk, ResidencyState::kDemoting);
  }
  free(s, {Tier::kHost}, actions);
  s.state = ResidencyState::kOnDisk;
  return actions;
}

ResidencyReference::Actions ResidencyReference::fetch(Storage& s, std::vector<Event> heard) {
  Actions actions;
  if (s.copies.empty()) {
    s.state = ResidencyState::kFetching;
    s.from = s.to = Tier::kDevice;
    s.held.insert(Tier::kDevice);
    actions = {{ActionKind::kRecompute, s.id, Tier::kDevice, Tier::kDevice, s.bytes}};
  } else {
    actions = fly(s, *s.copies.begin(), Tier::kDevice, ResidencyState::kFetching);
  }
  s.heard = std::move(heard);
  return actions;
}

ResidencyReference::Actions ResidencyReference::fly(Storage& s, Tier from, Tier to,
                                                    ResidencyState state) {
  s.state = state;
  s.from = from;
  s.to = to;
  s.held.insert(to);
  s.heard.clear();
  return {{ActionKind::kStartCopy, s.id, from, to, s.bytes}};
}

// The table "During a flight", read over the whole flight.
ResidencyReference::Memory ResidencyReference::remembered(const Storage& s) const {
  const bool evicting = s.state == ResidencyState::kEvicting;
  const bool demoting = s.state == ResidencyState::kDemoting;
  const bool fetching = s.state == ResidencyState::kFetching;
  Memory memory{fetching, false, false, false, false};
  for (const Event& event : s.heard) {
    const bool bound = evicting ? memory.written : memory.exempting;
    if (event.kind == EventKind::kUse) {
      const bool deaf = (evicting && is(Mutation::kReadDoesNotKeep)) ||
                        (demoting && is(Mutation::kDemotionIgnoresUse));
      if (!deaf) memory.wanted = true;
    } else if (event.kind == EventKind::kWrite) {
      memory.wanted = memory.written = true;
    } else if (event.kind == EventKind::kExempt) {
      memory.wanted = memory.written = true;
      memory.exempting = !(demoting && is(Mutation::kExemptLostInDemotion));
    } else if (event.kind == EventKind::kReadmit) {
      memory.exempting = false;
    } else if (event.kind == EventKind::kEvict) {
      if (bound && !(evicting && is(Mutation::kEvictOverridesWrite))) continue;
      if (!(fetching && is(Mutation::kFetchIgnoresEvict))) memory.wanted = false;
      memory.keep_host = event.tier == Tier::kHost;
    } else if (event.kind == EventKind::kCancel) {
      if (fetching && bound) continue;
      memory.cancelled = true;
      if (evicting) memory.wanted = true;
      if (demoting) memory.keep_host = true;
      if (fetching) memory.wanted = false;
    }
  }
  return memory;
}

ResidencyReference::Actions ResidencyReference::ended(Storage& s, bool completed) {
  if (dying(s)) {
    Actions actions;
    free_all(s, actions);
    actions.push_back({ActionKind::kWake, s.id, Tier::kDevice, Tier::kDevice, s.bytes});
    return actions;
  }
  const Memory memory = remembered(s);
  if (s.state == ResidencyState::kEvicting) return eviction_ended(s, completed, memory);
  if (s.state == ResidencyState::kDemoting) return demotion_ended(s, completed, memory);
  return fetch_ended(s, completed, memory);
}

ResidencyReference::Actions ResidencyReference::eviction_ended(Storage& s, bool completed,
                                                               const Memory& memory) {
  Actions actions;
  const ResidencyState stays =
      memory.exempting ? ResidencyState::kExempt : ResidencyState::kResident;
  if (!completed) {
    if (!is(Mutation::kFailedEvictionLeaks)) free(s, {s.to}, actions);
    report(s, memory, actions);
    land(s, stays, completed, actions);
    return actions;
  }
  if (memory.wanted && memory.written && !is(Mutation::kSpoiledCopyCounts)) {
    free(s, {s.to}, actions);
    land(s, stays, completed, actions);
    return actions;
  }
  s.copies.insert(s.to);
  if (memory.wanted) {
    land(s, stays, completed, actions);
    return actions;
  }
  actions.push_back({ActionKind::kRevoke, s.id, Tier::kDevice, Tier::kDevice, s.bytes});
  free(s, {Tier::kDevice}, actions);
  land(s, state_on(s.to), completed, actions);
  return actions;
}

ResidencyReference::Actions ResidencyReference::demotion_ended(Storage& s, bool completed,
                                                               const Memory& memory) {
  Actions actions;
  if (completed) {
    s.copies.insert(Tier::kDisk);
  } else {
    free(s, {Tier::kDisk}, actions);
    report(s, memory, actions);
  }
  if (memory.wanted) {
    std::vector<Event> kept;
    if (memory.written) kept.push_back({EventKind::kWrite, s.id});
    if (memory.exempting) kept.push_back({EventKind::kExempt, s.id});
    const Actions fetched = fetch(s, std::move(kept));
    actions.insert(actions.end(), fetched.begin(), fetched.end());
    return actions;
  }
  const bool on_host = !completed || memory.keep_host;
  if (!on_host) free(s, {Tier::kHost}, actions);
  land(s, state_on(on_host ? Tier::kHost : Tier::kDisk), completed, actions);
  return actions;
}

ResidencyReference::Actions ResidencyReference::fetch_ended(Storage& s, bool completed,
                                                            const Memory& memory) {
  Actions actions;
  if (completed && memory.wanted) {
    s.copies.insert(Tier::kDevice);
    const bool stale = memory.written && !is(Mutation::kFetchKeepsStaleCopies);
    if (stale || is(Mutation::kFetchDropsCopies)) free(s, {Tier::kHost, Tier::kDisk}, actions);
    actions.push_back({ActionKind::kGrant, s.id, Tier::kDevice, Tier::kDevice, s.bytes});
    land(s, memory.exempting ? ResidencyState::kExempt : ResidencyState::kResident, completed,
         actions);
    return actions;
  }
  if (completed) {
    actions.push_back({ActionKind::kRevoke, s.id, Tier::kDevice, Tier::kDevice, s.bytes});
  }
  free(s, {Tier::kDevice}, actions);
  if (!completed) report(s, memory, actions);
  ResidencyState back = ResidencyState::kDropped;
  if (s.copies.contains(Tier::kDisk)) back = ResidencyState::kOnDisk;
  const bool misled = !completed && is(Mutation::kFailedFetchGoesToDisk);
  if (s.copies.contains(Tier::kHost) && !(misled && s.copies.contains(Tier::kDisk))) {
    back = ResidencyState::kOnHost;
  }
  land(s, back, completed, actions);
  return actions;
}

void ResidencyReference::free(Storage& s, std::initializer_list<Tier> tiers, Actions& actions) {
  for (const Tier tier : tiers) {
    if (s.held.erase(tier) == 0) continue;
    s.copies.erase(tier);
    actions.push_back({ActionKind::kFreeMemory, s.id, tier, tier, s.bytes});
  }
}

void ResidencyReference::free_all(Storage& s, Actions& actions) {
  free(s, {Tier::kDevice, Tier::kHost, Tier::kDisk}, actions);
}

void ResidencyReference::report(const Storage& s, const Memory& memory, Actions& actions) const {
  if (memory.cancelled && !is(Mutation::kCancelledFailureReported)) return;
  actions.push_back({ActionKind::kReportFailure, s.id, s.from, s.to, s.bytes});
}

void ResidencyReference::land(Storage& s, ResidencyState state, bool completed,
                              Actions& actions) const {
  s.state = state;
  s.heard.clear();
  if (!completed && is(Mutation::kNoWakeOnFailure)) return;
  actions.push_back({ActionKind::kWake, s.id, Tier::kDevice, Tier::kDevice, s.bytes});
}

}  // namespace spillway::testing
