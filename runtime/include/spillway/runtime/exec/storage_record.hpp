// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/residency/residency_machine.hpp"
#include "spillway/runtime/exec/making.hpp"
#include "spillway/runtime/memory/device_block.hpp"
#include "spillway/runtime/transfer/extent_allocator.hpp"
#include "spillway/runtime/transfer/transfer.hpp"

namespace spillway::runtime {

class StaleRecords;

/// A storage whose bytes, as of that version, a dropped one will be made from.
struct HeldSource {
  StorageRecord* record;
  std::uint32_t version;
};

/// The engine's record of one storage. Lives as long as the process (records are recycled, never
/// unmapped), so a pointer to one is always safe to follow.
///
/// Note [Pin, then look]. A running op must not lose its input, and the check must not take a lock.
/// The op adds a pin and then loads `state`; who evicts stores `kEvicting` and then loads `pins`.
/// Both sides are sequentially consistent, so at least one sees the other: either the op finds
/// the storage leaving and takes the lock, or the eviction finds the pin and is withdrawn. A count
/// in the record is the hazard slot of that storage: one atomic add, no scan of all threads' slots.
struct StorageRecord {
  /// Ends a pin; whoever waits for the last one among victims hears of it.
  void unpin() noexcept {
    if (pins.fetch_sub(1) == 1 && parked.load()) announce();
  }
  /// Something changed that says whether and when the storage leaves: see VictimOrder.
  void announce() noexcept {
    if (!is_stale.load(std::memory_order_relaxed)) push_stale();
  }
  void push_stale() noexcept;

  // Any thread, without the engine's lock.
  std::atomic<std::uint32_t> pins{0};
  std::atomic<residency::ResidencyState> state{residency::ResidencyState::kResident};
  std::atomic<bool> has_copy{false};       ///< a slower copy exists or is being made
  std::atomic<bool> is_stale{false};       ///< in StaleRecords
  std::atomic<bool> parked{false};         ///< met among victims while it was pinned
  std::atomic<void*> owner{nullptr};       ///< the adapter's handle; null until an op has shown it
  std::atomic<std::uint64_t> last_use{0};  ///< engine's op clock
  std::atomic<std::uint64_t> next_use{0};  ///< engine's op clock; 0: unknown
  std::atomic<std::uint32_t> kept{0};  ///< times the user asked that it never moves, less releases;
                                       ///< changed under the lock
  std::atomic<bool> leaves{false};     ///< is to leave before that: see GapPlan
  std::atomic<bool> always_dirty{false};      ///< written through pointers no op shows
  std::atomic<const char*> made_by{nullptr};  ///< name of the op that created it, interned
  std::atomic<std::uint64_t> born{0};         ///< engine's op clock
  std::atomic<const void*> maker{nullptr};    ///< frames of the thread that made it, to compare
  std::atomic<std::uint32_t> version{0};  ///< of its bytes: every op that may write begins another
  std::atomic<std::uint32_t> held{0};     ///< dropped storages that will be made from these bytes
  std::atomic<TimeNs> again{0};           ///< that the op of `made` takes; 0: it is not known
  std::atomic<bool> read_unseen{false};   ///< by work of a device that the program did not order
  std::atomic<bool> orphaned{false};      ///< it died, and lives on while it is `held`
  Bytes room{};                           ///< that it takes on the device: as long as it lives
  /// The object that `owner` is the handle of, to compare: the handle itself may be freed at any
  /// time by another thread that binds the record anew.
  std::atomic<const void*> bound_to{nullptr};

  StorageRecord* next_stale = nullptr;  ///< of whoever set `is_stale`
  StaleRecords* stale = nullptr;        ///< set before the record is anyone's

  // Guarded by the engine's lock.
  StorageId id{};
  DeviceBlock* block = nullptr;
  Bytes bytes{};
  Extent disk{};
  std::byte* host = nullptr;
  Bytes leaving{};                 ///< counted in Mover::leaving
  Bytes away{};                    ///< counted in Mover::away
  bool prefetched = false;         ///< comes, and no op has asked for it yet
  const void* ahead_of = nullptr;  ///< on its way before anyone needed it, along that path
  TransferId transfer = 0;         ///< of the copy to or from the disk in flight
  std::uint64_t checksum = 0;      ///< of the slower copies; 0: none was taken
  bool failed = false;             ///< its last fetch failed; see Mover::failure
  Made made{};                     ///< its bytes, as of `made_version`
  std::uint32_t made_version = 0;
  bool recomputing = false;       ///< a thread runs the ops that make it
  std::vector<HeldSource> holds;  ///< while it is dropped or made again
  std::size_t position = 0;       ///< index in the list of live records
};

}  // namespace spillway::runtime
