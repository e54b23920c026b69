// SPDX-License-Identifier: Apache-2.0
// Keeps where the bytes of every storage are, and decides what must happen next.
//
//                 Evict                    Evict(disk)
//   Resident -> Evicting -> OnHost ------> Demoting -> OnDisk
//      ^  ^_______/  \________|______________________^  |
//      |                      | Use, Write              | Use, Write
//      |______________________v_________________________v
//      |                   Fetching  <-- Use, Write -- Dropped <-- Drop -- (Resident, On*)
//      |__ Readmit __ Exempt <-- Exempt -- (any)
//
// A pure state machine: an event and the time go in, a new state and a list of actions come out. It
// owns no memory and knows no thread, clock, framework or file, so that the engine that trains and
// a simulation of it run the very same code. The full table, with every pair of state and event,
// is docs/residency.md.
//
// Terms. A tier *holds* a storage when memory there is accounted to it; a *copy* is memory whose
// content is complete and current. A storage on the device with a copy on a slower tier is *clean*.
//
// Contract of the driver. It reserves room in the target tier before the event that may start a
// copy (Evict for slower tiers; Use, Write and Exempt for the device, where the bytes are not
// there). It executes actions in the order given. It sends exactly one CopyCompleted or CopyFailed
// for each StartCopy and each Recompute, cancelled ones included. StartCopy and Recompute are
// always an event's last action, so that a driver that copies at once may send the end while
// executing it.
//
// Cost: O(1) per event, no allocation once the table and the caller's vector have grown.
// Not thread-safe: the driver holds its lock. A broken contract throws InternalError and changes
// nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/machine/tier.hpp"

namespace spillway::residency {

enum class ResidencyState : std::uint8_t {
  kResident,  ///< on the device, accessible
  kEvicting,  ///< on the device, accessible, being copied to a slower tier
  kOnHost,    ///< the fastest copy is on the host
  kDemoting,  ///< on the host, being copied to disk
  kOnDisk,    ///< the only copy is on disk
  kFetching,  ///< being copied or recomputed into the device, not yet accessible
  kDropped,   ///< nowhere; the ops that made it can be run again
  kExempt,    ///< on the device and never moved
};
std::string_view to_string(ResidencyState state);
/// A copy of the storage is under way: its end is an event to come.
constexpr bool in_flight(ResidencyState state) {
  return state == ResidencyState::kEvicting || state == ResidencyState::kDemoting ||
         state == ResidencyState::kFetching;
}

enum class EventKind : std::uint8_t {
  kUse,            ///< an op is about to read
  kWrite,          ///< an op is about to write: copies become stale
  kEvict,          ///< leave the device for `tier`; from OnHost, the host for the disk
  kDrop,           ///< free the bytes everywhere: they can be recomputed
  kExempt,         ///< stay on the device: foreign code may read and write at any time
  kReadmit,        ///< no longer exempt
  kCopyCompleted,  ///< the copy or recomputation in flight ended well
  kCopyFailed,     ///< it ended without result
  kCancel,         ///< the copy in flight is no longer wanted; its end is still reported
  kDie,            ///< the storage is gone
};
std::string_view to_string(EventKind kind);

struct Event {
  EventKind kind;
  StorageId id;
  Tier tier = Tier::kDevice;  ///< kEvict: the target, host or disk; unused otherwise
};

enum class ActionKind : std::uint8_t {
  kStartCopy,      ///< copy `bytes` from tier `from` to tier `to`
  kFreeMemory,     ///< give back what tier `from` (= `to`) holds
  kRevoke,         ///< make the device bytes inaccessible; idempotent
  kGrant,          ///< make them accessible
  kRecompute,      ///< run the recorded ops again, into the device
  kWake,           ///< a copy ended and the state is settled: waiters look again
  kReportFailure,  ///< the copy from `from` to `to` failed though nobody had cancelled it
};
std::string_view to_string(ActionKind kind);

struct Action {
  ActionKind kind;
  StorageId id;
  Tier from = Tier::kDevice;
  Tier to = Tier::kDevice;
  Bytes bytes{};  ///< the storage's size

  bool operator==(const Action&) const = default;
};

/// Counts since construction. Bytes are of storages.
struct Statistics {
  std::uint64_t evictions = 0;           ///< copies out of the device started
  std::uint64_t clean_evictions = 0;     ///< left without a copy: a current one existed
  std::uint64_t rescued_evictions = 0;   ///< copies out that ended with the bytes staying
  std::uint64_t demotions = 0;           ///< copies from host to disk started
  std::uint64_t fetches = 0;             ///< copies into the device started
  std::uint64_t unwanted_fetches = 0;    ///< fetched or recomputed, and given up on arrival
  std::uint64_t recomputations = 0;      ///< Recompute actions
  std::uint64_t failed_copies = 0;       ///< cancelled ones and those of dead storages included
  Bytes evicted{};                       ///< of `evictions`
  Bytes clean_evicted{};                 ///< of `clean_evictions`
  Bytes demoted{};                       ///< of `demotions`
  Bytes fetched{};                       ///< of `fetches`
  TimeNs copying_ns = 0;                 ///< sum over copies and recomputations, start to end
  std::array<Bytes, kTierCount> peak{};  ///< most that each tier ever held

  bool operator==(const Statistics&) const = default;
};

class ResidencyMachine {
 public:
  /// A new storage, resident, without copies. Ids are never reused, and never zero.
  StorageId create(Bytes bytes);

  /// Appends what the driver must do to `actions`. Throws InternalError, before any change, where
  /// the contract is broken: an unknown or dead storage, the end of a copy that never started, an
  /// eviction to the device.
  void on(const Event& event, TimeNs now, std::vector<Action>& actions);

  /// False from the moment the last memory of a dead storage was freed.
  [[nodiscard]] bool contains(StorageId id) const;
  /// These throw InternalError for a storage the machine does not contain.
  [[nodiscard]] ResidencyState state(StorageId id) const;
  /// Whether `tier` has the storage's bytes, complete and current.
  [[nodiscard]] bool has_copy(StorageId id, Tier tier) const;
  [[nodiscard]] Bytes size(StorageId id) const;

  /// Bytes held in `tier`: on the device from creation or the start of a fetch, elsewhere from
  /// StartCopy, until FreeMemory.
  [[nodiscard]] Bytes used(Tier tier) const { return used_[index_of(tier)]; }
  [[nodiscard]] std::size_t live() const { return live_; }
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }

 private:
  class TierSet {
   public:
    [[nodiscard]] bool has(Tier tier) const { return (bits_ & bit(tier)) != 0; }
    void add(Tier tier) { bits_ = static_cast<std::uint8_t>(bits_ | bit(tier)); }
    void remove(Tier tier) { bits_ = static_cast<std::uint8_t>(bits_ & ~bit(tier)); }

   private:
    static unsigned bit(Tier tier) { return 1U << index_of(tier); }
    std::uint8_t bits_ = 0;
  };

  // Events while a copy was in flight. Cleared when the state settles.
  struct Flight {
    bool wanted : 1 = false;     // the bytes shall be on the device in the end
    bool written : 1 = false;    // an op may have written, or will: slower copies are stale
    bool exempting : 1 = false;  // shall be Exempt in the end; implies wanted and written
    bool keep_host : 1 = false;  // Demoting: the host copy stays in the end
    bool cancelled : 1 = false;  // a failure is no news
    bool dying : 1 = false;
  };

  struct Slot {
    Bytes bytes{};
    TimeNs started = 0;  // of the copy in flight
    std::uint32_t generation = 1;
    ResidencyState state = ResidencyState::kResident;
    TierSet held;
    TierSet copies;  // always a subset of `held`
    Tier from = Tier::kDevice;
    Tier to = Tier::kDevice;
    Flight flight;
    bool live = false;
  };
  static_assert(sizeof(Slot) <= 32);

  struct Turn {  // one event being handled
    Slot& slot;
    StorageId id;
    TimeNs now;
    std::vector<Action>& actions;
  };

  [[nodiscard]] const Slot* find(StorageId id) const;
  [[nodiscard]] const Slot& at(StorageId id) const;

  void dispatch(Turn& turn, const Event& event);
  void on_resident(Turn& turn, const Event& event);
  void on_away(Turn& turn, const Event& event);  // OnHost, OnDisk, Dropped
  void on_in_flight(Turn& turn, const Event& event);
  void on_dying(Turn& turn, const Event& event);

  static void evict_in_flight(Slot& slot, Tier tier);
  static void cancel(Slot& slot);
  void end_copy(Turn& turn, bool completed);
  void end_eviction(Turn& turn, bool completed);
  void end_demotion(Turn& turn, bool completed);
  void end_fetch(Turn& turn, bool completed);
  void end_copy_of_dead(Turn& turn, bool completed);
  void count_end(Turn& turn, bool completed);

  static ResidencyState without_device(const Slot& slot);  // OnHost, OnDisk or Dropped
  void demote(Turn& turn);                                 // from OnHost to the disk
  void leave_cleanly(Turn& turn);
  void bring_in(Turn& turn);  // starts the fetch or the recomputation
  void start_copy(Turn& turn, Tier from, Tier to, ResidencyState during);
  void settle(Turn& turn, ResidencyState state);
  void die(Turn& turn);
  void retire(Turn& turn);

  static void emit(Turn& turn, ActionKind kind, Tier from = Tier::kDevice, Tier to = Tier::kDevice);
  void hold(Slot& slot, Tier tier);
  void free_memory(Turn& turn, Tier tier);  // nothing where `tier` holds nothing
  void free_slower(Turn& turn);
  void free_all(Turn& turn);

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> unused_;
  std::array<Bytes, kTierCount> used_{};
  std::size_t live_ = 0;
  Statistics statistics_;
};

}  // namespace spillway::residency
