// SPDX-License-Identifier: Apache-2.0
#include "card_storages.hpp"

#include <utility>

#include "spillway/runtime/transfer/transfer_pool.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

namespace {

constexpr Bytes kChunk{4096};

}  // namespace

CardStorages::CardStorages(StreamClock& clock, const CardStorageOptions& options)
    : tier_(clock, options.device, options.addresses, options.ahead),
      host_(clock, options.host, options.slab),
      chunks_(clock, kChunk, kChunk),
      mover_(mutex_, settled_, tier_, host_, owner_, remains_) {
  auto transfers = std::make_unique<DeviceTransfers>(
      clock, tier_, host_, chunks_, kChunk, std::make_unique<TransferPool>(), Looking::kCaller);
  transfers_ = transfers.get();
  mover_.configure({.host_budget = options.host, .verify = false, .observer = this}, nullptr,
                   std::move(transfers));
}

StorageRecord* CardStorages::create(Bytes bytes, DeviceStream stream) {
  const Allocation made = tier_.allocate(bytes, Overbooking::kRefuse, tier_.number(stream));
  if (made.pointer == nullptr) return nullptr;
  StorageRecord& record = mover_.create(*made.block, bytes);
  record.owner.store(&owner_);
  return &record;
}

std::optional<DeviceAddress> CardStorages::use(StorageRecord& record, DeviceStream stream,
                                               Access access) {
  record.pins.fetch_add(1);
  for (;;) {
    switch (mover_.request(record, access, Overbooking::kRefuse).outcome) {
      case Mover::Outcome::kReady:
        tier_.begin_use(*record.block, tier_.number(stream));
        return device_address(record.block->address);
      case Mover::Outcome::kRecompute:  // nothing is dropped here
      case Mover::Outcome::kPending:
        advance();
        break;
      case Mover::Outcome::kNeedsRoom:
      case Mover::Outcome::kFailed:
        record.unpin();
        return std::nullopt;
    }
  }
}

void CardStorages::used(StorageRecord& record, DeviceStream stream) {
  tier_.end_use(*record.block, tier_.number(stream));
  tier_.launched(tier_.number(stream), {});
  record.unpin();
}

bool CardStorages::prefetch(StorageRecord& record) {
  const ResidencyState state = record.state.load();
  if (state != ResidencyState::kOnHost && state != ResidencyState::kOnDisk) return false;
  return mover_.prefetch(record, &record);
}

void CardStorages::advance() {
  mutex_.unlock();
  try {
    transfers_->look();
  } catch (...) {
    mutex_.lock();
    throw;
  }
  mutex_.lock();
  tier_.open_next();
  tier_.settle();
}

bool CardStorages::make_room() {
  const Bytes coming = tier_.coming();
  const std::size_t in_flight = mover_.in_flight();
  if (coming == Bytes{} && in_flight == 0) return false;
  while (tier_.coming() == coming && mover_.in_flight() == in_flight) advance();
  return true;
}

}  // namespace spillway::runtime
