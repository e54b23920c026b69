// SPDX-License-Identifier: Apache-2.0
// Leaving the device and the host: who may, for which tier, and its room there.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/runtime/exec/mover.hpp"

namespace spillway::runtime {

using residency::EventKind;
using residency::ResidencyState;

bool Mover::may_leave(const StorageRecord& record) const {
  if (record.orphaned.load()) return true;
  void* owner = record.owner.load();
  return owner != nullptr && record.kept == 0 && framework_.may_evict(owner, record);
}

// Once is enough: if it comes back before its use, it is to stay.
Bytes Mover::evict(StorageRecord& record) {
  const Bytes leaving = evict_to(record, std::nullopt);
  if (leaving.count != 0) record.leaves.store(false, std::memory_order_relaxed);
  return leaving;
}

Bytes Mover::evict_to(StorageRecord& record, std::optional<Tier> tier) {
  if (machine_.state(record.id) != ResidencyState::kResident || !may_leave(record)) return {};
  if (!close_to_users(record)) return {};
  const Bytes pages = memory_.resident(*record.block);
  if (record.has_copy.load() && (record.always_dirty.load() || !copies_.verify_clean(record))) {
    send(record, EventKind::kWrite);  // which opens it again
    if (!close_to_users(record)) return {};
  }
  if (record.has_copy.load()) {
    ledger_.evicted_clean(record);
    send(record, EventKind::kEvict, tier.value_or(Tier::kDisk));
    return pages;
  }
  const std::optional<Tier> target = reserve(record, tier);
  if (!target) {
    record.state.store(ResidencyState::kResident);
    return {};
  }
  send(record, EventKind::kEvict, *target);
  return pages;
}

// The evicting side of Note [Pin, then look]. False if an op is using the storage.
bool Mover::close_to_users(StorageRecord& record) {
  record.state.store(ResidencyState::kEvicting);
  if (record.pins.load() == 0) return true;
  record.state.store(ResidencyState::kResident);
  return false;
}

bool Mover::leave(StorageRecord& record, Tier tier) {
  switch (machine_.state(record.id)) {
    case ResidencyState::kResident:
      return evict_to(record, tier).count != 0;
    case ResidencyState::kOnHost:
      return tier == Tier::kHost || demote(record);
    case ResidencyState::kOnDisk:
    case ResidencyState::kDropped:
      return true;
    case ResidencyState::kExempt:
      return false;
    case ResidencyState::kEvicting:
    case ResidencyState::kDemoting:
    case ResidencyState::kFetching:
      break;
  }
  // An op that pins it from here on finds that it is not resident and asks for it, which counts.
  if (record.pins.load() != 0 || !may_leave(record)) return false;
  send(record, EventKind::kEvict, tier);
  if (machine_.state(record.id) == ResidencyState::kEvicting) memory_.seal(*record.block);
  return true;
}

bool Mover::drop(StorageRecord& record) {
  const bool dropped = machine_.state(record.id) == ResidencyState::kDropped;
  if (record.pins.load() != 0 || !may_leave(record)) return false;
  switch (machine_.state(record.id)) {
    case ResidencyState::kResident:
      if (!close_to_users(record)) return false;
      break;
    case ResidencyState::kOnHost:
    case ResidencyState::kOnDisk:
    case ResidencyState::kDropped:
      break;
    case ResidencyState::kEvicting:
    case ResidencyState::kDemoting:
    case ResidencyState::kFetching:
    case ResidencyState::kExempt:
      return false;
  }
  send(record, EventKind::kDrop);
  if (!dropped) ++dropped_;
  record.checksum = 0;  // of copies that are no more
  return true;
}

// A write raises the version and then looks whether the bytes are held; here they are held, and
// then the version is looked at. Both are sequentially consistent, so that one of the two sees the
// other.
bool Mover::drop(StorageRecord& record, const std::vector<HeldSource>& sources) {
  SPILLWAY_CHECK(record.holds.empty(), "a storage is dropped once");
  const std::uint64_t checksum = verify_recomputed_ ? copies_.checksum(record) : 0;
  for (const HeldSource& source : sources) source.record->held.fetch_add(1);
  const bool unwritten = std::ranges::all_of(sources, [](const HeldSource& source) {
    return source.record->version.load() == source.version;
  });
  if (!unwritten || !drop(record)) {
    let_go(sources);
    return false;
  }
  record.holds = sources;
  record.checksum = checksum;
  // It will be read when the storage is made again.
  const std::uint64_t next = record.next_use.load(std::memory_order_relaxed);
  for (const HeldSource& source : sources) {
    const std::uint64_t known = source.record->next_use.load(std::memory_order_relaxed);
    if (next == 0 || (known != 0 && known <= next)) continue;
    source.record->next_use.store(next, std::memory_order_relaxed);
    source.record->announce();
  }
  return true;
}

// On the tier stated, else on the host where it has room, else on the disk. Nothing if there is
// none, or none before demotions end.
std::optional<Tier> Mover::reserve(StorageRecord& record, std::optional<Tier> stated) {
  if (stated == Tier::kHost)
    return rooms_.reserve_host(record, copies_.copied(record)) ? stated : std::nullopt;
  if (!stated && rooms_.host().could_hold(copies_.copied(record))) {
    // Where no demotion could be started, the disk takes it directly.
    const Bytes short_by = rooms_.host().short_by(copies_.copied(record));
    if (short_by.count != 0 && demote_for(short_by)) return std::nullopt;
    if (rooms_.reserve_host(record, copies_.copied(record))) return Tier::kHost;
  }
  return reserve_disk(record) ? std::optional(Tier::kDisk) : std::nullopt;
}

bool Mover::reserve_disk(StorageRecord& record) {
  std::string why;
  if (rooms_.reserve_disk(record, copies_.copied(record), why)) return true;
  if (!why.empty()) ledger_.set_failure(std::move(why));
  return false;
}

/// From the host to the disk: at once where there is a copy. False if the disk has no room.
bool Mover::demote(StorageRecord& record) {
  if (!machine_.has_copy(record.id, Tier::kDisk) && !reserve_disk(record)) return false;
  send(record, EventKind::kEvict, Tier::kDisk);
  return true;
}

/// Starts copying from host to disk what makes `bytes` of room. False if there is room already, or
/// nothing can go.
bool Mover::demote_for(Bytes bytes) {
  const Bytes used_before = rooms_.host().used();
  Bytes going{};
  for (StorageRecord* record : live()) {
    if (machine_.state(record->id) == ResidencyState::kDemoting) going += copies_.copied(*record);
  }
  if (going < bytes) {
    // By their next uses as they are now, for ops may change them meanwhile; the furthest comes
    // first, of equals the oldest. Few of many go, so these alone are put in order.
    std::vector<std::tuple<std::uint64_t, std::int64_t, StorageRecord*>> on_host;
    for (StorageRecord* record : live()) {
      if (machine_.state(record->id) != ResidencyState::kOnHost) continue;
      on_host.emplace_back(record->next_use.load(), -std::ssize(on_host), record);
    }
    std::ranges::make_heap(on_host);
    while (going < bytes && !on_host.empty()) {
      std::ranges::pop_heap(on_host);
      StorageRecord* const record = std::get<StorageRecord*>(on_host.back());
      on_host.pop_back();
      if (!demote(*record)) break;
      going += copies_.copied(*record);
    }
  }
  if (used_before - rooms_.host().used() >= bytes) return false;
  return going.count != 0;
}

}  // namespace spillway::runtime
