// SPDX-License-Identifier: Apache-2.0
// Copies of storages between tiers, from their begin to their end.
//
// The mover says which storage's bytes go where. Copies has the transfers carry them, takes and
// compares checksums, enters in the ledger what came of it, and tells the end:
//
//     start ──> transfers ──> end, on a thread of theirs ──> takes the lock ──> `ended`
//                        \──> take_back, of what has not started ──> end_taken_back ──> `ended`
//
// All functions need the engine's lock; the end of a transfer takes it and notifies its condition.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/machine/tier.hpp"
#include "spillway/runtime/exec/move_ledger.hpp"
#include "spillway/runtime/exec/remains.hpp"
#include "spillway/runtime/exec/storage_record.hpp"
#include "spillway/runtime/exec/tier_rooms.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::runtime {

class Copies {
 public:
  /// A copy to `to` is over, under the engine's lock. `succeeded`: the bytes are in place. Called
  /// from within `start` where the copy is over at once.
  using Ended = std::function<void(StorageRecord& record, Tier to, bool succeeded)>;

  /// Refers to all of them; `remains` is guarded by `mutex`.
  Copies(std::mutex& mutex, std::condition_variable& settled, DeviceTier& memory, TierRooms& rooms,
         MoveLedger& ledger, Remains& remains, Ended ended);

  /// Other transfers serve only if the present ones have moved nothing: they hold the counters.
  /// Returns those that do not serve.
  [[nodiscard]] std::unique_ptr<Transfers> replace(std::unique_ptr<Transfers> transfers);
  /// Waits for what is under way and ends the transfers' threads, without the lock. None is begun
  /// afterwards.
  void stop() { transfers_.reset(); }

  /// Takes a checksum on the way out and compares it on the way back, from now on.
  void set_verify(bool verify) { verify_ = verify; }
  [[nodiscard]] bool verifies() const { return verify_; }

  /// Begins a copy, whose room is there. One that cannot be begun has failed.
  void start(StorageRecord& record, Tier from, Tier to);
  /// The program waits for this fetch. True: it is as good as over, and `ended` was called.
  bool hurry(StorageRecord& record);
  /// Takes a copy back that has not started. True: `end_taken_back` must follow.
  bool take_back(StorageRecord& record) { return transfers_->cancel(record.transfer); }
  void end_taken_back(StorageRecord& record, Tier from, Tier to) {
    finish(record, from, to, Ending::kTakenBack);
  }

  /// Whether a resident storage still is what its slower copies hold, where a checksum was taken.
  [[nodiscard]] bool verify_clean(StorageRecord& record);
  /// Of the bytes of a storage that is on the device.
  [[nodiscard]] std::uint64_t checksum(const StorageRecord& record) const {
    return checksum(record, record.block->address);
  }
  /// Returns the bytes that slower tiers hold of a storage.
  [[nodiscard]] Bytes copied(const StorageRecord& record) const {
    return memory_.copy_range(*record.block).bytes;
  }

  [[nodiscard]] std::size_t in_flight() const { return in_flight_; }
  [[nodiscard]] Transfers& transfers() { return *transfers_; }
  /// False in a forked child alone.
  [[nodiscard]] bool has_transfers() const { return transfers_ != nullptr; }

  /// After fork in the child: no transfer threads, nothing in flight.
  void abandon_in_child();
  /// In the child: reads the bytes of a storage whose pages are there.
  bool read_in_child(StorageRecord& record);

 private:
  enum class Ending : std::uint8_t { kDone, kFailed, kTakenBack };

  void begin(StorageRecord& record, Tier from, Tier to);
  void start_disk_copy(StorageRecord& record, std::byte* memory, Direction direction);
  void start_memory_copy(StorageRecord& record, Tier from, Tier to);
  [[nodiscard]] std::uint64_t checksum(const StorageRecord& record, const std::byte* memory) const;
  /// Why a copy brought nothing that can be used; empty where it did.
  [[nodiscard]] std::string fault_of(const StorageRecord& record, Tier to,
                                     const TransferResult& result) const;
  void complete(StorageRecord& record, Tier from, Tier to, const TransferResult& result);
  void finish(StorageRecord& record, Tier from, Tier to, Ending ending);
  bool land(StorageRecord& record);
  void note_arrival(StorageRecord& record);

  std::mutex& mutex_;
  std::condition_variable& settled_;
  DeviceTier& memory_;
  TierRooms& rooms_;
  MoveLedger& ledger_;
  Remains& remains_;
  Ended ended_;
  bool verify_ = false;
  std::size_t in_flight_ = 0;
  std::unique_ptr<Transfers> transfers_;
};

}  // namespace spillway::runtime
