// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/copies.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/runtime/device/stream_uses.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"

namespace spillway::runtime {

namespace {

std::uint64_t checksum_of(const std::byte* memory, Bytes bytes) {
  return XXH3_64bits(memory, bytes.count);
}

}  // namespace

Copies::Copies(std::mutex& mutex, std::condition_variable& settled, DeviceTier& memory,
               TierRooms& rooms, MoveLedger& ledger, Remains& remains, Ended ended)
    : mutex_(mutex),
      settled_(settled),
      memory_(memory),
      rooms_(rooms),
      ledger_(ledger),
      remains_(remains),
      ended_(std::move(ended)),
      transfers_(std::make_unique<TransferPool>()) {}

std::unique_ptr<Transfers> Copies::replace(std::unique_ptr<Transfers> transfers) {
  const Bytes moved = transfers_->bytes_written() + transfers_->bytes_read();
  if (transfers != nullptr && in_flight_ == 0 && moved == Bytes{0}) {
    std::swap(transfers_, transfers);
  }
  return transfers;
}

// Of the storage's bytes, which lie at `memory`. Those of a card are copied to the host for it, and
// waited for: to verify is to look, whatever it costs.
std::uint64_t Copies::checksum(const StorageRecord& record, const std::byte* memory) const {
  StreamUses* const streams = memory_.stream_uses();
  if (streams == nullptr) return checksum_of(memory, record.bytes);
  std::vector<std::byte> bytes(record.bytes.count);
  streams->read_back(*record.block, record.bytes, bytes.data());
  return checksum_of(bytes.data(), record.bytes);
}

void Copies::start(StorageRecord& record, Tier from, Tier to) {
  ++in_flight_;
  try {
    begin(record, from, to);
  } catch (const UserError& error) {  // no thread can be started, or the device is lost
    ledger_.set_failure(error.what());
    finish(record, from, to, Ending::kFailed);
  }
}

void Copies::begin(StorageRecord& record, Tier from, Tier to) {
  if (to == Tier::kDevice && record.block->intact) {
    finish(record, from, to, Ending::kDone);
    return;
  }
  if (from == Tier::kDevice) {
    memory_.seal(*record.block);
    ledger_.begin_leaving(record, memory_.resident(*record.block));
    record.checksum = verify_ ? checksum(record, record.block->address) : 0;
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

void Copies::start_memory_copy(StorageRecord& record, Tier from, Tier to) {
  const auto begin = std::chrono::steady_clock::now();
  std::byte* const device = memory_.copy_range(*record.block).begin;
  const bool out = from == Tier::kDevice;
  const auto under_way = transfers_->copy({.from = out ? device : record.host,
                                           .to = out ? record.host : device,
                                           .bytes = copied(record),
                                           .awaited = !out && !record.prefetched && !verify_},
                                          [this, &record, from, to](const TransferResult& result) {
                                            complete(record, from, to, result);
                                          });
  if (under_way) {
    record.transfer = *under_way;
  } else {
    ledger_.copied_at_once(std::chrono::steady_clock::now() - begin);
    finish(record, from, to, Ending::kDone);
  }
}

void Copies::start_disk_copy(StorageRecord& record, std::byte* memory, Direction direction) {
  const Tier from = direction == Direction::kIn ? Tier::kDisk
                    : memory == record.host     ? Tier::kHost
                                                : Tier::kDevice;
  const Tier to = direction == Direction::kIn ? Tier::kDevice : Tier::kDisk;
  record.transfer =
      transfers_->submit(Transfer{.direction = direction,
                                  .memory = memory,
                                  .extent = record.disk,
                                  .descriptor = rooms_.spool()->descriptor(),
                                  .length = TierRooms::bytes_on_disk(copied(record)).count},
                         [this, &record, from, to](const TransferResult& result) {
                           complete(record, from, to, result);
                         });
}

// A copy made before verify mode was switched on has no checksum.
std::string Copies::fault_of(const StorageRecord& record, Tier to,
                             const TransferResult& result) const {
  if (result.error != 0) return result.said.empty() ? std::strerror(result.error) : result.said;
  if (to != Tier::kDevice || record.checksum == 0) return {};
  try {
    const std::byte* const bytes = memory_.bytes_in_copy(*record.block);
    return checksum(record, bytes) == record.checksum ? "" : "checksum differs";
  } catch (const UserError& failure) {  // the device is lost
    return failure.what();
  }
}

void Copies::complete(StorageRecord& record, Tier from, Tier to, const TransferResult& result) {
  const std::string fault = fault_of(record, to, result);
  std::vector<HostPages> freed;  // after the lock
  const std::lock_guard lock(mutex_);
  if (!fault.empty()) {
    const bool disk = from == Tier::kDisk || to == Tier::kDisk;
    ledger_.set_failure(fmt::format("storage {} of {}: {} {} failed: {}", to_value(record.id),
                                    to_string(record.bytes),
                                    to == Tier::kDevice ? "reading" : "writing",
                                    disk ? "the spool file" : "host memory", fault));
  }
  if (to == Tier::kDevice && record.checksum != 0) ledger_.compared_checksum();
  // Whoever came to need it meanwhile asks again, and room is made as for others.
  if (result.unplaced) record.prefetched = true;
  settled_.notify_all();  // before what may throw, where a device is lost: who waits needs the lock
  finish(record, from, to, fault.empty() ? Ending::kDone : Ending::kFailed);
  freed = std::exchange(remains_.pages, {});
}

void Copies::finish(StorageRecord& record, Tier from, Tier to, Ending ending) {
  const bool succeeded = ending == Ending::kDone && (to != Tier::kDevice || land(record));
  --in_flight_;
  ledger_.end_leaving(record);
  record.ahead_of = nullptr;
  if (to != Tier::kDevice && ending != Ending::kTakenBack) ledger_.copy_out_ended(succeeded);
  if (succeeded && from == Tier::kDevice) ledger_.evicted(record);
  if (succeeded && to == Tier::kDevice) note_arrival(record);
  if (succeeded) ledger_.set_failure({});
  ended_(record, to, succeeded);
}

bool Copies::land(StorageRecord& record) {
  if (memory_.land(*record.block)) return true;
  ledger_.set_failure(fmt::format("storage {} of {}: the kernel refuses to move its pages",
                                  to_value(record.id), to_string(record.bytes)));
  return false;
}

void Copies::note_arrival(StorageRecord& record) {
  if (std::exchange(record.block->intact, true)) {
    ledger_.recalled(record);
  } else {
    ledger_.fetched(record);
  }
}

bool Copies::verify_clean(StorageRecord& record) {
  if (record.checksum == 0) return true;
  ledger_.compared_checksum();
  if (checksum(record, record.block->address) == record.checksum) return true;
  ledger_.found_undeclared_write();
  ledger_.set_failure(
      fmt::format("storage {} of {}, made by {}, was written by an op that does not declare it",
                  to_value(record.id), to_string(record.bytes),
                  record.made_by.load() == nullptr ? "unknown" : record.made_by.load()));
  return false;
}

// What a stream brings is as good as there when the copy is in its stream, unless it has to be
// looked at. Others may wait for the end of it, which nobody else tells of.
bool Copies::hurry(StorageRecord& record) {
  if (verify_ && memory_.stream_uses() != nullptr) return false;
  if (!transfers_->hurry(record.transfer)) return false;
  finish(record, Tier::kHost, Tier::kDevice, Ending::kDone);
  settled_.notify_all();
  return true;
}

void Copies::abandon_in_child() {
  // The pool's threads do not exist here; its destructor would wait for them.
  static_cast<void>(transfers_.release());
  in_flight_ = 0;
}

bool Copies::read_in_child(StorageRecord& record) {
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
                             .descriptor = rooms_.spool()->descriptor(),
                             .length = TierRooms::bytes_on_disk(copied(record)).count});
  if (result.error != 0) memory_.abandon_landing(*record.block);
  return result.error == 0 && memory_.land(*record.block);
}

}  // namespace spillway::runtime
