// SPDX-License-Identifier: Apache-2.0
// Drives the residency machine with real memory, real copies and real completions.
//
// The machine decides (residency/residency_machine.hpp), the mover carries out: it starts copies on
// the transfer pool, drops and restores blocks, and feeds completions back. What it does that with
// is in parts of its own:
//
//     StorageTable   the records            TierRooms   room on host and disk
//     Refusals       access by users        MoveLedger  what moved, is on its way, and failed
//     Copies         bytes on their way, from begin to end
//
// All functions but the destructor need the engine's lock; ends of copies take it themselves and
// then notify the engine's condition. Remains of storages go to `Remains`, which the holder of the
// lock destroys after it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/residency/residency_machine.hpp"
#include "spillway/residency/transition_observer.hpp"
#include "spillway/runtime/exec/copies.hpp"
#include "spillway/runtime/exec/framework.hpp"
#include "spillway/runtime/exec/move_ledger.hpp"
#include "spillway/runtime/exec/refusals.hpp"
#include "spillway/runtime/exec/remains.hpp"
#include "spillway/runtime/exec/storage_record.hpp"
#include "spillway/runtime/exec/storage_table.hpp"
#include "spillway/runtime/exec/tier_rooms.hpp"
#include "spillway/runtime/exec/victim_order.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "spillway/runtime/move_tally.hpp"
#include "spillway/runtime/transfer/spool.hpp"
#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::runtime {

struct MoverOptions {
  Bytes host_budget{};             ///< zero: no host tier, evictions go to disk
  bool verify = false;             ///< checksum on the way out and back
  bool verify_recomputed = false;  ///< checksum of what is dropped and made again
  /// Hears of every event, under the engine's lock and at time 0, after the record's state was set.
  /// Outlives the mover.
  residency::TransitionObserver* observer = nullptr;
};

/// Whether an op reads a storage or may also write it.
enum class Access : std::uint8_t { kRead, kWrite };

class Mover {
 public:
  /// Refers to all of them; `remains` is guarded by `mutex`.
  Mover(std::mutex& mutex, std::condition_variable& settled, DeviceTier& memory, HostRoom& host,
        Framework& framework, Remains& remains);
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  /// The file and the threads that serve no more.
  struct Replaced {
    std::shared_ptr<Spool> spool;
    std::unique_ptr<Transfers> transfers;
  };
  /// A new spool replaces the present one only once that holds nothing: `spool_is_empty`.
  /// Other transfers serve only if the present ones have moved nothing: they hold the counters.
  /// Returns those that do not serve, for the caller to destroy after the lock: threads end then,
  /// and a file of any size is closed.
  Replaced configure(const MoverOptions& options, std::shared_ptr<Spool> spool,
                     std::unique_ptr<Transfers> transfers = nullptr);
  [[nodiscard]] bool spool_is_empty() const;
  /// Frees the slower copies of a resident storage: from now on ops may write it unseen.
  void drop_copies(StorageRecord& record);

  /// A record for a block just allocated.
  StorageRecord& create(DeviceBlock& block, Bytes bytes);
  /// The storage died: its owner, if it had one, is among what remains.
  void die(StorageRecord& record);

  enum class Outcome : std::uint8_t { kReady, kPending, kRecompute, kNeedsRoom, kFailed };
  struct Request {
    Outcome outcome;
    Bytes short_by{};      ///< kNeedsRoom
    bool refused = false;  ///< kNeedsRoom: as Allocation says
  };
  /// An op is about to access `record`: kReady, or kPending until the condition is notified, or
  /// the caller has to run the ops that make it and report `recomputed`, or room must be made
  /// first, or its bytes cannot be had (`failure` says why).
  Request request(StorageRecord& record, Access access, Overbooking overbooking);

  /// Brings `record` back before it is asked for, along `path` (any address, never looked at). Of
  /// what is dropped the caller has to run the ops, as for kRecompute.
  /// False if there is no room now. A failure is not reported: the op that needs the bytes tries
  /// again.
  bool prefetch(StorageRecord& record, const void* path);
  /// As `evict`, before the room is needed, along `path`.
  Bytes write_behind(StorageRecord& record, const void* path);
  /// The program left `path`: cancels copies along it that have not started and that nobody has
  /// asked for. Storages that were to leave stay and are accessible; those that were to come stay
  /// away.
  void cancel_ahead(const void* path);

  /// Starts evicting. Returns the bytes that left at once or are on their way; 0 if the storage is
  /// in use, or no slower tier has room.
  Bytes evict(StorageRecord& record);

  /// A plan's action, for storages in every state: leave the device for `tier`, host or
  /// disk, or what lies on the host for the disk. A copy under way goes on and counts as that.
  /// False if the storage stays where it is: it is in use, or `tier` has no room.
  bool leave(StorageRecord& record, Tier tier);

  /// Frees the bytes everywhere: whoever asks for them has the ops run again that made them. False
  /// if the storage is in use, or a copy of it under way.
  bool drop(StorageRecord& record);
  /// The same, holding what it will be made from. False, too, if that was written meanwhile.
  bool drop(StorageRecord& record, const std::vector<HeldSource>& sources);
  /// How the bytes that it holds now were made; empty: nobody knows.
  void set_made(StorageRecord& record, Made made);
  /// What was held is not any more: what died meanwhile is gone now.
  void let_go(const std::vector<HeldSource>& sources);
  /// A dropped storage was asked for, so that its room is there, and those ops were run in so much
  /// time. `succeeded`: its bytes are in place.
  void recomputed(StorageRecord& record, bool succeeded, TimeNs time = 0);

  /// Storages that are away give their addresses for reading, or again refuse every access. Only
  /// those whose range faults when it is read. Nothing may be in flight.
  void show_addresses(bool shown);
  [[nodiscard]] bool addresses_shown() const { return refusals_.addresses_shown(); }

  /// Exported memory is never evicted, and nothing knows when it is written.
  void exempt(StorageRecord& record);

  /// Room of evictions in flight.
  [[nodiscard]] Bytes leaving() const { return ledger_.leaving(); }
  /// Room that evicted storages would take on the device. Any thread.
  [[nodiscard]] Bytes away() const { return ledger_.away(); }
  /// Copies.
  [[nodiscard]] std::size_t in_flight() const { return copies_.in_flight(); }
  /// Begun, and not reported.
  [[nodiscard]] std::size_t recomputations() const { return recomputations_; }
  /// Storages that are dropped, or made again now. Any thread.
  [[nodiscard]] std::size_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  [[nodiscard]] const std::vector<StorageRecord*>& live() const { return table_.live(); }
  [[nodiscard]] const MoveStatistics& statistics() const { return ledger_.statistics(); }
  [[nodiscard]] Bytes used(Tier tier) const { return machine_.used(tier); }
  [[nodiscard]] const std::string& failure() const { return ledger_.failure(); }
  /// Copies to slower tiers that failed since one succeeded.
  [[nodiscard]] std::uint64_t failures_in_a_row() const { return ledger_.failures_in_a_row(); }
  /// The disk tier, or null where nothing is ever evicted.
  [[nodiscard]] Spool* spool() const { return rooms_.spool(); }
  [[nodiscard]] Transfers& transfers() { return copies_.transfers(); }
  /// Whether a copy of so much goes to the host, where there is room, and not to the disk.
  [[nodiscard]] bool goes_to_host(Bytes bytes) const { return rooms_.host().could_hold(bytes); }
  /// False in a forked child alone.
  [[nodiscard]] bool has_transfers() const { return copies_.has_transfers(); }

  /// Kinds of storage (creating op and size) that moved most.
  [[nodiscard]] const MoveTally& tally() const { return ledger_.tally(); }
  /// In which order what can leave leaves.
  [[nodiscard]] VictimOrder& order() { return order_; }

  /// After fork in the child: no transfer threads, nothing in flight.
  void abandon_in_child();
  /// In the child: reads an evicted storage's bytes without residency accounting.
  bool read_in_child(StorageRecord& record);

 private:
  using Event = residency::Event;
  using Action = residency::Action;

  Request ask(StorageRecord& record, Access access, Overbooking overbooking);
  void send(StorageRecord& record, residency::EventKind kind, Tier tier = Tier::kDevice);
  void carry_out(StorageRecord& record, const Action& action);
  void copy_ended(StorageRecord& record, Tier to, bool succeeded);
  void start_recomputation(StorageRecord& record);
  bool move_to(StorageRecord& record, DeviceBlock* block);
  Allocation restore_dropped(StorageRecord& record, Overbooking overbooking);
  bool is_as_before(StorageRecord& record);
  bool open_again(StorageRecord& record);
  void free_memory(StorageRecord& record, Tier tier);
  void retire(StorageRecord& record);
  static bool close_to_users(StorageRecord& record);
  bool may_leave(const StorageRecord& record) const;
  Bytes evict_to(StorageRecord& record, std::optional<Tier> tier);
  bool demote(StorageRecord& record);
  std::optional<Tier> reserve(StorageRecord& record, std::optional<Tier> stated);
  bool reserve_disk(StorageRecord& record);
  bool demote_for(Bytes bytes);

  std::condition_variable& settled_;
  DeviceTier& memory_;
  Framework& framework_;
  Remains& remains_;
  residency::ResidencyMachine machine_;
  StorageTable table_;
  TierRooms rooms_;
  Refusals refusals_;
  MoveLedger ledger_;
  VictimOrder order_;
  Copies copies_;
  residency::TransitionObserver* observer_ = nullptr;
  bool verify_recomputed_ = false;
  std::atomic<std::size_t> dropped_{0};
  std::size_t recomputations_ = 0;     // begun, not reported
  std::vector<Action> spare_actions_;  // memory for the next event's
};

}  // namespace spillway::runtime
