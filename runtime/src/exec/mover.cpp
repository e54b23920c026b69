// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/mover.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "spillway/base/error.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"

namespace spillway::runtime {

using residency::ActionKind;
using residency::EventKind;
using residency::ResidencyState;

namespace {

std::uint64_t checksum_of(const std::byte* memory, Bytes bytes) {
  return XXH3_64bits(memory, bytes.count);
}

}  // namespace

// Returns the bytes that slower tiers hold of a storage.
Bytes Mover::copied(const StorageRecord& record) const {
  return memory_.copy_range(*record.block).bytes;
}

Mover::Mover(std::mutex& mutex, std::condition_variable& settled, DeviceTier& memory,
             Framework& framework, Remains& remains)
    : mutex_(mutex),
      settled_(settled),
      memory_(memory),
      framework_(framework),
      remains_(remains),
      refusals_(framework),
      transfers_(std::make_unique<TransferPool>()) {}

// Copies on the host are the mover's own, and transfers may be at them until they end.
Mover::~Mover() {
  transfers_.reset();
  for (StorageRecord& record : table_.all()) {
    if (record.host != nullptr) static_cast<void>(rooms_.free_host(record, copied(record)));
  }
}

Mover::Replaced Mover::configure(const MoverOptions& options, std::shared_ptr<Spool> spool,
                                 std::unique_ptr<Transfers> transfers) {
  options_ = options;
  rooms_.set_host_limit(options.host_budget);
  const Bytes moved = transfers_->bytes_written() + transfers_->bytes_read();
  if (transfers != nullptr && in_flight_ == 0 && moved == Bytes{0}) {
    std::swap(transfers_, transfers);
  }
  // Looked at again: the caller asked before it had the lock.
  if (spool != nullptr && spool_is_empty()) spool = rooms_.replace_spool(std::move(spool));
  return {.spool = std::move(spool), .transfers = std::move(transfers)};
}

bool Mover::spool_is_empty() const {
  return spool() == nullptr || (in_flight_ == 0 && spool()->used_bytes().count == 0);
}

void Mover::drop_copies(StorageRecord& record) {
  // Elsewhere the copy may be all there is, and a write would fetch it.
  if (machine_.state(record.id) == ResidencyState::kResident) send(record, EventKind::kWrite);
}

StorageRecord& Mover::create(DeviceBlock& block, Bytes bytes) {
  return table_.add(machine_.create(bytes), block, bytes, order_.stale());
}

void Mover::die(StorageRecord& record) {
  if (void* owner = record.owner.exchange(nullptr)) remains_.owners.push_back(owner);
  record.bound_to.store(nullptr);
  send(record, EventKind::kDie);
}

void Mover::retire(StorageRecord& record) {
  DeviceBlock& block = *record.block;
  ledger_.end_away(record);
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
  if (options_.observer != nullptr) options_.observer->on_event(machine_, event, 0, actions);
  for (const Action& action : actions) carry_out(record, action);
  actions.clear();
  spare_actions_ = std::move(actions);
  if (record.id == id && record.block != nullptr && !machine_.contains(id)) retire(record);
}

void Mover::carry_out(StorageRecord& record, const Action& action) {
  switch (action.kind) {
    case ActionKind::kStartCopy:
      start_copy(record, action.from, action.to);
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
        memory_.evict(*record.block);
        if (addresses_shown()) refusals_.refuse(record);
      }
      break;
    case Tier::kHost:
      remains_.pages.push_back(rooms_.free_host(record, copied(record)));
      break;
    case Tier::kDisk:
      rooms_.free_disk(record);
      break;
  }
}

void Mover::start_copy(StorageRecord& record, Tier from, Tier to) {
  ++in_flight_;
  if (to == Tier::kDevice) {
    if (record.block->intact) {
      finish(record, from, to, Ending::kDone);
      return;
    }
  }
  if (from == Tier::kDevice) {
    memory_.seal(*record.block);
    ledger_.begin_leaving(record, memory_.resident(*record.block));
    record.checksum = options_.verify ? checksum_of(record.block->address, record.bytes) : 0;
  }
  if (to == Tier::kDisk) {
    start_disk_copy(record,
                    from == Tier::kHost ? record.host : memory_.copy_range(*record.block).begin,
                    Direction::kOut);
  } else if (from == Tier::kDisk) {
    start_disk_copy(record, memory_.copy_range(*record.block).begin, Direction::kIn);
  } else {
    start_memory_copy(record, from, to);
  }
}

void Mover::start_memory_copy(StorageRecord& record, Tier from, Tier to) {
  const auto begin = std::chrono::steady_clock::now();
  std::byte* const device = memory_.copy_range(*record.block).begin;
  const bool out = from == Tier::kDevice;
  const auto under_way = transfers_->copy(
      {.from = out ? device : record.host,
       .to = out ? record.host : device,
       .bytes = copied(record)},
      [this, &record, from, to](TransferResult result) { complete(record, from, to, result); });
  if (under_way) {
    record.transfer = *under_way;
  } else {
    ledger_.copied_at_once(std::chrono::steady_clock::now() - begin);
    finish(record, from, to, Ending::kDone);
  }
}

void Mover::start_disk_copy(StorageRecord& record, std::byte* memory, Direction direction) {
  const Tier from = direction == Direction::kIn ? Tier::kDisk
                    : memory == record.host     ? Tier::kHost
                                                : Tier::kDevice;
  const Tier to = direction == Direction::kIn ? Tier::kDevice : Tier::kDisk;
  try {
    record.transfer = transfers_->submit(
        Transfer{.direction = direction,
                 .memory = memory,
                 .extent = record.disk,
                 .descriptor = spool()->descriptor(),
                 .length = TierRooms::bytes_on_disk(copied(record)).count},
        [this, &record, from, to](TransferResult result) { complete(record, from, to, result); });
  } catch (const UserError& error) {  // no thread can be started
    ledger_.set_failure(error.what());
    finish(record, from, to, Ending::kFailed);
  }
}

// Nobody took its pages: then there is nothing to be run.
void Mover::start_recomputation(StorageRecord& record) {
  ++in_flight_;
  if (record.block->intact) recomputed(record, true);
}

void Mover::recomputed(StorageRecord& record, bool succeeded) {
  --in_flight_;
  record.ahead_of = nullptr;
  record.block->intact = succeeded;
  send(record, succeeded ? EventKind::kCopyCompleted : EventKind::kCopyFailed);
  record.prefetched = false;
}

void Mover::complete(StorageRecord& record, Tier from, Tier to, const TransferResult& result) {
  // A copy made before verify mode was switched on has no checksum.
  const bool intact =
      result.error != 0 || to != Tier::kDevice || record.checksum == 0 ||
      checksum_of(memory_.bytes_in_copy(*record.block), record.bytes) == record.checksum;
  std::vector<HostPages> freed;  // after the lock
  const std::lock_guard lock(mutex_);
  if (result.error != 0 || !intact) {
    const bool disk = from == Tier::kDisk || to == Tier::kDisk;
    ledger_.set_failure(fmt::format(
        "storage {} of {}: {} {} failed: {}", to_value(record.id), to_string(record.bytes),
        to == Tier::kDevice ? "reading" : "writing", disk ? "the spool file" : "host memory",
        intact ? std::strerror(result.error) : "checksum differs"));
  }
  if (to == Tier::kDevice && record.checksum != 0) ledger_.compared_checksum();
  finish(record, from, to, result.error == 0 && intact ? Ending::kDone : Ending::kFailed);
  freed = std::exchange(remains_.pages, {});
  settled_.notify_all();
}

void Mover::finish(StorageRecord& record, Tier from, Tier to, Ending ending) {
  const bool succeeded = ending == Ending::kDone && (to != Tier::kDevice || land(record));
  --in_flight_;
  ledger_.end_leaving(record);
  record.ahead_of = nullptr;
  if (to != Tier::kDevice && ending != Ending::kCancelled) ledger_.copy_out_ended(succeeded);
  if (succeeded && from == Tier::kDevice) ledger_.evicted(record);
  if (succeeded && to == Tier::kDevice) note_arrival(record);
  if (succeeded) ledger_.set_failure({});
  send(record, succeeded ? EventKind::kCopyCompleted : EventKind::kCopyFailed);
  if (to == Tier::kDevice) record.prefetched = false;
}

bool Mover::land(StorageRecord& record) {
  if (memory_.land(*record.block)) return true;
  ledger_.set_failure(fmt::format("storage {} of {}: the kernel refuses to move its pages",
                                  to_value(record.id), to_string(record.bytes)));
  return false;
}

bool Mover::open_again(StorageRecord& record) {
  if (memory_.unseal(*record.block)) return true;
  ledger_.set_failure(
      fmt::format("storage {} of {}: the kernel refuses to make its memory writable again",
                  to_value(record.id), to_string(record.bytes)));
  return false;
}

void Mover::note_arrival(StorageRecord& record) {
  if (std::exchange(record.block->intact, true)) {
    ledger_.recalled(record);
  } else {
    ledger_.fetched(record);
  }
}

bool Mover::verify_clean(StorageRecord& record) {
  if (record.checksum == 0) return true;
  ledger_.compared_checksum();
  if (checksum_of(record.block->address, record.bytes) == record.checksum) return true;
  ledger_.found_undeclared_write();
  ledger_.set_failure(
      fmt::format("storage {} of {}, made by {}, was written by an op that does not declare it",
                  to_value(record.id), to_string(record.bytes),
                  record.made_by.load() == nullptr ? "unknown" : record.made_by.load()));
  return false;
}

Mover::Request Mover::request(StorageRecord& record, Access access, Overbooking overbooking) {
  const EventKind kind = access == Access::kWrite ? EventKind::kWrite : EventKind::kUse;
  record.prefetched = false;
  record.ahead_of = nullptr;
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
      transfers_->hurry(record.transfer);
      send(record, kind);
      return {.outcome = Outcome::kPending, .short_by = {}};
    case ResidencyState::kOnHost:
    case ResidencyState::kOnDisk:
    case ResidencyState::kDemoting:
    case ResidencyState::kDropped:
      break;
  }
  if (addresses_shown()) refusals_.refuse_all(record);  // until the bytes are there
  // To verify is to look at what comes back from the slower tier.
  if (options_.verify) record.block->intact = false;
  const bool copied = machine_.state(record.id) != ResidencyState::kDropped;
  const Allocation pages = copied ? memory_.restore_apart(*record.block, overbooking)
                                  : memory_.restore(*record.block, overbooking);
  if (pages.pointer == nullptr) {
    if (addresses_shown()) refusals_.refuse(record);
    return {.outcome = Outcome::kNeedsRoom, .short_by = pages.short_by};
  }
  ledger_.end_away(record);
  send(record, kind);
  switch (machine_.state(record.id)) {
    case ResidencyState::kFetching:
    case ResidencyState::kDemoting:
      return {.outcome = Outcome::kPending, .short_by = {}};
    case ResidencyState::kResident:
      return {.outcome = Outcome::kReady, .short_by = {}};
    default:  // it could not even be begun: nobody will tell of its end
      record.failed = false;
      return {.outcome = Outcome::kFailed, .short_by = {}};
  }
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
  // The pool's threads do not exist here; its destructor would wait for them.
  static_cast<void>(transfers_.release());
  in_flight_ = 0;
}

bool Mover::read_in_child(StorageRecord& record) {
  const Allocation pages = memory_.restore_apart(*record.block, Overbooking::kAllow);
  if (pages.pointer == nullptr) return false;
  if (record.block->intact) return true;
  if (record.host != nullptr) {
    std::memcpy(memory_.copy_range(*record.block).begin, record.host, copied(record).count);
    return memory_.land(*record.block);
  }
  // Only the thread that forked exists here: a pool of its own, which starts no worker.
  TransferPool pool(1);
  const TransferResult result =
      pool.run_here(Transfer{.direction = Direction::kIn,
                             .memory = memory_.copy_range(*record.block).begin,
                             .extent = record.disk,
                             .descriptor = spool()->descriptor(),
                             .length = TierRooms::bytes_on_disk(copied(record)).count});
  if (result.error != 0) memory_.abandon_landing(*record.block);
  return result.error == 0 && memory_.land(*record.block);
}

}  // namespace spillway::runtime
