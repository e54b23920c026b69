// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/mover.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

using residency::ActionKind;
using residency::EventKind;
using residency::ResidencyState;

Mover::Mover(std::mutex& mutex, std::condition_variable& settled, DeviceTier& memory,
             HostRoom& host, Framework& framework, Remains& remains)
    : settled_(settled),
      memory_(memory),
      framework_(framework),
      remains_(remains),
      rooms_(host),
      refusals_(framework),
      copies_(mutex, settled, memory, rooms_, ledger_, remains,
              [this](StorageRecord& record, Tier to, bool succeeded) {
                copy_ended(record, to, succeeded);
              }) {}

// Copies on the host are the mover's own, and transfers may be at them until they end.
Mover::~Mover() {
  copies_.stop();
  for (StorageRecord& record : table_.all()) {
    if (record.host != nullptr) static_cast<void>(rooms_.free_host(record, copies_.copied(record)));
  }
}

Mover::Replaced Mover::configure(const MoverOptions& options, std::shared_ptr<Spool> spool,
                                 std::unique_ptr<Transfers> transfers) {
  observer_ = options.observer;
  copies_.set_verify(options.verify);
  verify_recomputed_ = options.verify_recomputed;
  rooms_.set_host_limit(options.host_budget);
  transfers = copies_.replace(std::move(transfers));
  // Looked at again: the caller asked before it had the lock.
  if (spool != nullptr && spool_is_empty()) spool = rooms_.replace_spool(std::move(spool));
  return {.spool = std::move(spool), .transfers = std::move(transfers)};
}

bool Mover::spool_is_empty() const {
  return spool() == nullptr || (in_flight() == 0 && spool()->used_bytes().count == 0);
}

void Mover::drop_copies(StorageRecord& record) {
  // Elsewhere the copy may be all there is, and a write would fetch it.
  if (machine_.state(record.id) == ResidencyState::kResident) send(record, EventKind::kWrite);
}

StorageRecord& Mover::create(DeviceBlock& block, Bytes bytes) {
  StorageRecord& record = table_.add(machine_.create(bytes), block, bytes, order_.stale());
  record.room = memory_.needed(block);
  return record;
}

void Mover::die(StorageRecord& record) {
  if (void* owner = record.owner.exchange(nullptr)) remains_.owners.push_back(owner);
  record.bound_to.store(nullptr);
  if (record.held.load() != 0) {
    record.orphaned.store(true);
    return;
  }
  // What is being made again goes on reading what it holds.
  const bool dropped = machine_.state(record.id) == ResidencyState::kDropped;
  const auto sources = dropped ? std::exchange(record.holds, {}) : std::vector<HeldSource>{};
  if (dropped) --dropped_;
  send(record, EventKind::kDie);
  let_go(sources);
}

void Mover::set_made(StorageRecord& record, Made made) {
  std::swap(record.made, made);
  record.made_version = record.version.load();
  record.again.store(record.made.by != nullptr ? std::max<TimeNs>(record.made.by->cost(), 1) : 0);
  if (made.by != nullptr) remains_.makings.push_back(std::move(made.by));
}

void Mover::let_go(const std::vector<HeldSource>& sources) {
  for (const HeldSource& source : sources) {
    const bool last = source.record->held.fetch_sub(1) == 1;
    if (last && source.record->orphaned.load()) die(*source.record);
  }
}

void Mover::retire(StorageRecord& record) {
  DeviceBlock& block = *record.block;
  ledger_.end_away(record);
  if (record.made.by != nullptr) remains_.makings.push_back(std::move(record.made.by));
  table_.remove(record);
  memory_.free_block(block);
}

void Mover::send(StorageRecord& record, EventKind kind, Tier tier) {
  std::vector<Action> actions = std::move(spare_actions_);  // events nest: the inner finds none
  const StorageId id = record.id;
  const Event event{.kind = kind, .id = id, .tier = tier};
  machine_.on(event, 0, actions);
  if (machine_.contains(id)) {
    record.has_copy.store(machine_.has_copy(id, Tier::kHost) || machine_.has_copy(id, Tier::kDisk));
    const ResidencyState state = machine_.state(id);
    // First, since an op that sees the state may write at once. A copy may have failed, been taken
    // back, or been spoilt by a write.
    if (state == ResidencyState::kResident || state == ResidencyState::kExempt) open_again(record);
    record.state.store(state);
  }
  record.announce();
  if (observer_ != nullptr) observer_->on_event(machine_, event, 0, actions);
  for (const Action& action : actions) carry_out(record, action);
  actions.clear();
  spare_actions_ = std::move(actions);
  if (record.id == id && record.block != nullptr && !machine_.contains(id)) retire(record);
}

void Mover::carry_out(StorageRecord& record, const Action& action) {
  switch (action.kind) {
    case ActionKind::kStartCopy:
      copies_.start(record, action.from, action.to);
      break;
    case ActionKind::kFreeMemory:
      free_memory(record, action.from);
      break;
    case ActionKind::kRevoke:
      refusals_.refuse(record);
      break;
    case ActionKind::kGrant:
      refusals_.allow(record);
      break;
    case ActionKind::kWake:
      settled_.notify_all();
      break;
    case ActionKind::kReportFailure:
      ledger_.reported_failure();
      // After a failed copy to a slower tier the bytes are where they were: no user need hear of
      // it.
      if (action.to == Tier::kDevice && !record.prefetched) record.failed = true;
      settled_.notify_all();
      break;
    case ActionKind::kRecompute:
      start_recomputation(record);
      break;
  }
}

void Mover::free_memory(StorageRecord& record, Tier tier) {
  switch (tier) {
    case Tier::kDevice:
      // A dying storage's pages stay in the cache of freed blocks: see `retire`.
      if (machine_.contains(record.id)) {
        memory_.abandon_landing(*record.block);
        // A fetch that failed leaves it without any.
        ledger_.begin_away(
            record, std::max(memory_.resident(*record.block), memory_.needed(*record.block)));
        // What was dropped leaves its memory to others, where it can have another block.
        if (machine_.state(record.id) != ResidencyState::kDropped ||
            !move_to(record, memory_.spare(*record.block))) {
          memory_.evict(*record.block);
        }
        if (addresses_shown()) refusals_.refuse(record);
      }
      break;
    case Tier::kHost:
      if (HostPages pages = rooms_.free_host(record, copies_.copied(record))) {
        remains_.pages.push_back(std::move(pages));
      }
      break;
    case Tier::kDisk:
      rooms_.free_disk(record);
      break;
  }
}

// Another block becomes the storage's, and its present one nobody's. Null: there is none.
bool Mover::move_to(StorageRecord& record, DeviceBlock* block) {
  if (block == nullptr) return false;
  void* const owner = record.owner.load();
  if (owner == nullptr || !framework_.move(owner, record, block->address)) {
    memory_.free_block(*block);
    return false;
  }
  DeviceBlock& before = *std::exchange(record.block, block);
  block->record = &record;
  before.record = nullptr;
  memory_.free_block(before);
  return true;
}

Allocation Mover::restore_dropped(StorageRecord& record, Overbooking overbooking) {
  if (memory_.resident(*record.block).count == 0 &&
      move_to(record, memory_.take_freed_like(*record.block))) {
    return {.pointer = record.block->address, .block = record.block, .short_by = {}};
  }
  return memory_.restore(*record.block, overbooking);
}

void Mover::copy_ended(StorageRecord& record, Tier to, bool succeeded) {
  send(record, succeeded ? EventKind::kCopyCompleted : EventKind::kCopyFailed);
  if (to == Tier::kDevice) record.prefetched = false;
}

// Nobody took its pages: then there is nothing to be run.
void Mover::start_recomputation(StorageRecord& record) {
  ++recomputations_;
  record.recomputing = true;
  if (record.block->intact) recomputed(record, true);
}

bool Mover::is_as_before(StorageRecord& record) {
  const std::uint64_t before = std::exchange(record.checksum, 0);
  if (before == 0) return true;
  ledger_.compared_checksum();
  try {
    if (copies_.checksum(record) == before) return true;
  } catch (const UserError& failure) {  // the device is lost
    ledger_.set_failure(failure.what());
    return false;
  }
  ledger_.set_failure(fmt::format(
      "storage {} of {}: {} was run again and gave other bytes. SPILLWAY_RECOMPUTE=off copies all "
      "instead",
      to_value(record.id), to_string(record.bytes), record.made.by->name()));
  return false;
}

void Mover::recomputed(StorageRecord& record, bool succeeded, TimeNs time) {
  --recomputations_;
  record.recomputing = false;
  succeeded = succeeded && (record.block->intact || is_as_before(record));
  record.ahead_of = nullptr;
  if (succeeded) ledger_.recomputed(record, time);
  record.block->intact = succeeded;
  std::vector<HeldSource> sources = std::exchange(record.holds, {});
  const StorageId id = record.id;
  copy_ended(record, Tier::kDevice, succeeded);
  if (machine_.contains(id) && machine_.state(id) == ResidencyState::kDropped) {
    record.holds = std::move(sources);
  } else {
    --dropped_;
    let_go(sources);
  }
  settled_.notify_all();
}

bool Mover::open_again(StorageRecord& record) {
  if (memory_.unseal(*record.block)) return true;
  ledger_.set_failure(
      fmt::format("storage {} of {}: the kernel refuses to make its memory writable again",
                  to_value(record.id), to_string(record.bytes)));
  return false;
}

Mover::Request Mover::request(StorageRecord& record, Access access, Overbooking overbooking) {
  record.prefetched = false;
  record.ahead_of = nullptr;
  return ask(record, access, overbooking);
}

Mover::Request Mover::ask(StorageRecord& record, Access access, Overbooking overbooking) {
  const EventKind kind = access == Access::kWrite ? EventKind::kWrite : EventKind::kUse;
  if (std::exchange(record.failed, false)) return {.outcome = Outcome::kFailed, .short_by = {}};
  switch (machine_.state(record.id)) {
    case ResidencyState::kResident:
      if (access == Access::kWrite && record.has_copy.load()) send(record, kind);
      record.state.store(ResidencyState::kResident);
      return {.outcome = Outcome::kReady, .short_by = {}};
    case ResidencyState::kEvicting:
      if (!open_again(record)) return {.outcome = Outcome::kFailed, .short_by = {}};
      ledger_.end_leaving(record);
      send(record, kind);
      return {.outcome = Outcome::kReady, .short_by = {}};
    case ResidencyState::kExempt:
      return {.outcome = Outcome::kReady, .short_by = {}};
    case ResidencyState::kFetching:
      send(record, kind);
      return {.outcome = copies_.hurry(record) ? Outcome::kReady : Outcome::kPending,
              .short_by = {}};
    case ResidencyState::kOnHost:
    case ResidencyState::kOnDisk:
    case ResidencyState::kDemoting:
    case ResidencyState::kDropped:
      break;
  }
  if (addresses_shown()) refusals_.refuse_all(record);  // until the bytes are there
  // To verify is to look at what comes back from the slower tier.
  if (copies_.verifies()) record.block->intact = false;
  const bool copied = machine_.state(record.id) != ResidencyState::kDropped;
  const Allocation pages = !copied             ? restore_dropped(record, overbooking)
                           : record.prefetched ? memory_.restore_ahead(*record.block, overbooking)
                                               : memory_.restore_apart(*record.block, overbooking);
  if (pages.pointer == nullptr) {
    if (addresses_shown()) refusals_.refuse(record);
    return {.outcome = Outcome::kNeedsRoom, .short_by = pages.short_by, .refused = pages.refused};
  }
  ledger_.end_away(record);
  send(record, kind);
  switch (machine_.state(record.id)) {
    case ResidencyState::kFetching:
    case ResidencyState::kDemoting:
      return {.outcome = copied ? Outcome::kPending : Outcome::kRecompute, .short_by = {}};
    case ResidencyState::kResident:
      return {.outcome = Outcome::kReady, .short_by = {}};
    default:  // it could not even be begun: nobody will tell of its end
      record.failed = false;
      return {.outcome = Outcome::kFailed, .short_by = {}};
  }
}

bool Mover::prefetch(StorageRecord& record, const void* path) {
  if (record.failed) return true;
  record.prefetched = true;  // already when the copy starts
  record.ahead_of = nullptr;
  const Request result = ask(record, Access::kRead, Overbooking::kRefuse);
  const bool pending = result.outcome == Outcome::kPending || result.outcome == Outcome::kRecompute;
  record.prefetched = pending;
  if (pending) record.ahead_of = path;
  return result.outcome != Outcome::kNeedsRoom;
}

Bytes Mover::write_behind(StorageRecord& record, const void* path) {
  const Bytes leaving = evict(record);
  if (leaving.count != 0 && record.leaving.count != 0) record.ahead_of = path;  // else it is gone
  return leaving;
}

void Mover::cancel_ahead(const void* path) {
  const std::vector<StorageRecord*> records = live();  // those of dead storages leave it here
  for (StorageRecord* record : records) {
    if (record->ahead_of != path || record->block == nullptr) continue;
    record->ahead_of = nullptr;
    const bool leaving = record->leaving.count != 0;
    if (!leaving && !record->prefetched) continue;
    if (!copies_.take_back(*record)) continue;
    send(*record, EventKind::kCancel);
    // Which of the slower tiers it is makes no difference any more.
    if (leaving) {
      copies_.end_taken_back(*record, Tier::kDevice, Tier::kDisk);
    } else {
      copies_.end_taken_back(*record, Tier::kDisk, Tier::kDevice);
    }
  }
  settled_.notify_all();  // whoever waits for what was to leave must look again
}

void Mover::show_addresses(bool shown) {
  refusals_.show_addresses(shown);
  for (StorageRecord* record : live()) {
    const ResidencyState state = record->state.load();
    const bool here = state == ResidencyState::kResident || state == ResidencyState::kExempt;
    if (!here && record->block != nullptr) refusals_.refuse(*record);
  }
}

void Mover::exempt(StorageRecord& record) {
  open_again(record);
  send(record, EventKind::kExempt);
}

void Mover::abandon_in_child() {
  copies_.abandon_in_child();
  recomputations_ = 0;
}

bool Mover::read_in_child(StorageRecord& record) {
  if (memory_.stream_uses() != nullptr) return false;  // a child has no use of a card
  const Allocation pages = memory_.restore_apart(*record.block, Overbooking::kAllow);
  return pages.pointer != nullptr && copies_.read_in_child(record);
}

}  // namespace spillway::runtime
