// SPDX-License-Identifier: Apache-2.0
#include "virtual_driver.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

#include "spillway/base/error.hpp"
#include "spillway/runtime/transfer/spool.hpp"

namespace spillway::testing {

using residency::EventKind;
using residency::ResidencyState;
using runtime::Access;
using runtime::Overbooking;

namespace {

// Room is the plan's matter: it has been found before a storage moves.
constexpr Bytes kAmple = kGiB;
constexpr runtime::ArenaOptions kSmallArena{
    .reservation = kGiB, .minimum = kMiB * 256, .colouring = runtime::Colouring::kNo};

bool is_accessible(ResidencyState state) {
  return state == ResidencyState::kResident || state == ResidencyState::kEvicting ||
         state == ResidencyState::kExempt;
}

}  // namespace

VirtualDriver::VirtualDriver(Bytes host) : memory_(kAmple, kSmallArena) {
  memory_.set_small_objects(runtime::SmallObjects::kBlocks);
  auto transfers = std::make_unique<VirtualTransfers>();
  transfers_ = transfers.get();
  // Verifying, it never takes pages back without a copy, which no plan can foresee.
  mover_.configure(
      {.host_budget = host, .verify = true, .observer = this},
      std::make_shared<runtime::Spool>(runtime::SpoolOptions{::testing::TempDir(), kAmple, {}}),
      std::move(transfers));
}

VirtualDriver::~VirtualDriver() {
  for (auto& [called, storage] : storages_) delete storage.handle;
}

void VirtualDriver::on_event(const residency::ResidencyMachine& machine,
                             const residency::Event& event, TimeNs /*now*/,
                             std::span<const residency::Action> actions) {
  const StorageId called = called_.at(event.id);
  made_.push_back(transition_of(machine, event, called, actions));
  const bool recompute =
      !actions.empty() && actions.back().kind == residency::ActionKind::kRecompute;
  if (recompute) recomputing_.insert(called);
}

void VirtualDriver::create(StorageId storage, Bytes bytes) {
  const runtime::Allocation room = memory_.allocate(bytes, Overbooking::kRefuse);
  SPILLWAY_CHECK(room.block != nullptr, "no memory");
  auto handle = std::make_unique<FakeStorage>();
  handle->pointer = room.pointer;
  handle->bytes = bytes.count;
  handle->record = &mover_.create(*room.block, bytes);
  handle->fill(++seeds_);
  runtime::StorageRecord& record = *handle->record;
  called_[record.id] = storage;
  storages_[storage] = {handle.get(), &record, record.id, seeds_};
  record.owner.store(handle.release());
}

std::vector<Transition> VirtualDriver::make(const residency::Event& event) {
  made_.clear();
  Storage& storage = storages_.at(event.id);
  switch (event.kind) {
    case EventKind::kUse:
      use(storage, Access::kRead);
      break;
    case EventKind::kWrite:
      use(storage, Access::kWrite);
      break;
    case EventKind::kEvict:
      mover_.leave(*storage.record, event.tier);
      break;
    case EventKind::kCopyCompleted:
      end_copy(event.id, storage, true);
      break;
    case EventKind::kCopyFailed:
      end_copy(event.id, storage, false);
      break;
    case EventKind::kDrop:
      mover_.drop(*storage.record);
      break;
    case EventKind::kDie:
      die(storage);
      break;
    case EventKind::kExempt:
      mover_.exempt(*storage.record);
      break;
    case EventKind::kReadmit:
    case EventKind::kCancel:
      SPILLWAY_CHECK(false, "the mover has nothing that stands for this event alone");
  }
  return std::exchange(made_, {});
}

std::vector<Transition> VirtualDriver::make(Call call, StorageId storage) {
  made_.clear();
  Storage& known = storages_.at(storage);
  switch (call) {
    case Call::kEvict:
      mover_.evict(*known.record);
      break;
    case Call::kWriteBehind:
      mover_.write_behind(*known.record, &known);
      break;
    case Call::kCancelAhead:
      mover_.cancel_ahead(&known);
      break;
  }
  return std::exchange(made_, {});
}

void VirtualDriver::use(Storage& storage, Access access) {
  runtime::StorageRecord& record = *storage.record;
  if (access == Access::kRead && !is_accessible(record.state.load())) {
    mover_.prefetch(record, &storage);
  } else {
    mover_.request(record, access, Overbooking::kRefuse);
  }
}

void VirtualDriver::write(StorageId storage) {
  Storage& written = storages_.at(storage);
  written.seed = ++seeds_;
  written.handle->fill(written.seed);
}

// Ops that are run again make the bytes that were there.
void VirtualDriver::end_copy(StorageId called, const Storage& storage, bool succeeded) {
  runtime::StorageRecord& record = *storage.record;
  if (recomputing_.erase(called) != 0) {
    if (succeeded && storage.handle != nullptr) storage.handle->fill(storage.seed);
    mover_.recomputed(record, succeeded);
    return;
  }
  lock_.unlock();
  transfers_->end(record.transfer, succeeded ? 0 : EIO);
  lock_.lock();
}

void VirtualDriver::die(Storage& storage) {
  storage.handle = nullptr;
  mover_.die(*storage.record);
  for (void* owner : std::exchange(remains_.owners, {})) framework_.release(owner);
}

std::optional<ResidencyState> VirtualDriver::state(StorageId storage) const {
  const Storage& known = storages_.at(storage);
  const runtime::StorageRecord& record = *known.record;
  if (record.block == nullptr || record.id != known.id) return std::nullopt;
  return record.state.load();
}

bool VirtualDriver::is_here(StorageId storage) const {
  const auto where = state(storage);
  return where && is_accessible(*where) && storages_.at(storage).handle != nullptr;
}

std::optional<std::string> VirtualDriver::flaw_of(StorageId storage) const {
  if (mover_.in_flight() != transfers_->under_way() ||
      mover_.recomputations() != recomputing_.size())
    return "the mover waits for other copies";
  const auto where = state(storage);
  const Storage& known = storages_.at(storage);
  if (!where || known.handle == nullptr) return std::nullopt;
  if (known.record->pins.load() != 0 && !is_accessible(*where)) return "it left a running op";
  if (known.handle->accessible.load() != is_accessible(*where)) return "accessible or not";
  if (is_accessible(*where) && !known.handle->holds(known.seed)) return "it holds other bytes";
  return std::nullopt;
}

std::optional<std::string> VirtualDriver::leak() const {
  if (!mover_.live().empty()) return "storages";
  if (transfers_->under_way() != 0) return "copies";
  if (memory_.live() != Bytes{}) return "memory";
  if (mover_.spool()->used_bytes() != Bytes{}) return "extents";
  if (mover_.leaving() != Bytes{} || mover_.away() != Bytes{}) return "counts of bytes that leave";
  if (mover_.statistics().undeclared_writes != 0) return "writes that nobody declared";
  return std::nullopt;
}

}  // namespace spillway::testing
