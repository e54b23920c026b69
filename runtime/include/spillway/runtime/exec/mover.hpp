// SPDX-License-Identifier: Apache-2.0
// Drives the residency machine with real memory, real copies and real completions.
//
// The machine decides (residency/residency_machine.hpp), the mover carries out: it starts copies on
// the transfer pool, drops and restores pages, frees extents, tells the framework to refuse or
// allow access, and feeds completions back. All functions but the destructor need the engine's
// lock; completions take it themselves and then notify the engine's condition.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/residency/residency_machine.hpp"
#include "spillway/residency/transition_observer.hpp"
#include "spillway/runtime/exec/framework.hpp"
#include "spillway/runtime/exec/move_tally.hpp"
#include "spillway/runtime/exec/storage_record.hpp"
#include "spillway/runtime/exec/victim_order.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "spillway/runtime/memory/host_memory.hpp"
#include "spillway/runtime/transfer/spool.hpp"
#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::runtime {

/// Counters of what moved. Bytes are of storages, not of pages.
struct MoveStatistics {
  Bytes evicted{};        ///< left the device tier with a copy made
  Bytes clean_evicted{};  ///< left without one: an identical copy existed
  Bytes fetched{};        ///< came back by a copy
  Bytes recalled{};       ///< came back before anyone had taken the pages, without one
  std::uint64_t evictions = 0;
  std::uint64_t fetches = 0;
  std::uint64_t recalls = 0;
  std::uint64_t failed_copies = 0;
  std::uint64_t undeclared_writes = 0;  ///< verify: written by an op that did not say so
  std::uint64_t checksums_compared = 0;
  std::chrono::nanoseconds copied_at_once{};  ///< time of copies that everybody waited for
};

struct MoverOptions {
  Bytes host_budget{};  ///< zero: no host tier, evictions go to disk
  bool verify = false;  ///< checksum on the way out and back
  /// Hears of every event, under the engine's lock and at time 0, after the record's state was set.
  /// Outlives the mover.
  residency::TransitionObserver* observer = nullptr;
};

/// Whether an op reads a storage or may also write it.
enum class Access : std::uint8_t { kRead, kWrite };

class Mover {
 public:
  Mover(std::mutex& mutex, std::condition_variable& settled, DeviceTier& memory,
        Framework& framework);
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  /// A new spool replaces the present one only once that holds nothing: `spool_is_empty`.
  /// Other transfers serve only if the present ones have moved nothing: they hold the counters.
  void configure(const MoverOptions& options, std::shared_ptr<Spool> spool,
                 std::unique_ptr<Transfers> transfers = nullptr);
  [[nodiscard]] bool spool_is_empty() const;
  /// Frees the slower copies of a resident storage: from now on ops may write it unseen.
  void drop_copies(StorageRecord& record);

  /// A record for a block just allocated.
  StorageRecord& create(DeviceBlock& block, Bytes bytes);
  /// The storage died. `released` receives the owner for Framework::release, if there was one.
  void die(StorageRecord& record, std::vector<void*>& released);

  enum class Outcome : std::uint8_t { kReady, kPending, kNeedsRoom, kFailed };
  struct Request {
    Outcome outcome;
    Bytes short_by{};  ///< kNeedsRoom
  };
  /// An op is about to access `record`: kReady, or kPending until the condition is notified, or
  /// room must be made first, or its bytes cannot be had (`failure` says why).
  Request request(StorageRecord& record, Access access, Overbooking overbooking);

  /// Brings `record` back before it is asked for, along `path` (any address, never looked at).
  /// False if there is no room now. A failure is not reported: the op that needs the bytes tries
  /// again.
  bool prefetch(StorageRecord& record, const void* path);
  /// As `evict`, before the room is needed, along `path`.
  Bytes write_behind(StorageRecord& record, const void* path);
  /// The program left `path`: takes back what was set going along it, has not started and nobody
  /// has asked for. What was to leave stays and is accessible; what was to come stays away.
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
  /// A dropped storage was asked for, so that its room is there, and those ops were run.
  /// `succeeded`: its bytes are in place.
  void recomputed(StorageRecord& record, bool succeeded);

  /// Storages that are away give their addresses for reading, or again refuse every access. Only
  /// those whose range faults when it is read. Nothing may be in flight.
  void show_addresses(bool shown);
  [[nodiscard]] bool addresses_shown() const { return addresses_shown_; }

  /// Exported memory is never evicted, and nothing knows when it is written.
  void exempt(StorageRecord& record);

  [[nodiscard]] Bytes leaving() const { return leaving_; }  ///< evictions in flight
  /// Pages that evicted storages would take on the device. Any thread.
  [[nodiscard]] Bytes away() const { return {away_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_; }
  [[nodiscard]] const std::vector<StorageRecord*>& live() const { return live_; }
  [[nodiscard]] const MoveStatistics& statistics() const { return statistics_; }
  [[nodiscard]] Bytes used(Tier tier) const { return machine_.used(tier); }
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// Copies to slower tiers that failed since one succeeded.
  [[nodiscard]] std::uint64_t failures_in_a_row() const { return failures_in_a_row_; }
  /// The disk tier, or null where nothing is ever evicted.
  [[nodiscard]] Spool* spool() const { return spool_.get(); }
  [[nodiscard]] Transfers& transfers() { return *transfers_; }
  /// False in a forked child alone.
  [[nodiscard]] bool has_transfers() const { return transfers_ != nullptr; }

  /// Kinds of storage (creating op and size) that moved most.
  [[nodiscard]] const MoveTally& tally() const { return tally_; }
  /// In which order what can leave leaves.
  [[nodiscard]] VictimOrder& order() { return order_; }

  /// After fork in the child: no transfer threads, nothing in flight.
  void abandon_in_child();
  /// In the child: reads an evicted storage's bytes without residency accounting.
  bool read_in_child(StorageRecord& record);

 private:
  using Event = residency::Event;
  using Action = residency::Action;

  void send(StorageRecord& record, residency::EventKind kind, Tier tier = Tier::kDevice);
  void carry_out(StorageRecord& record, const Action& action);
  void start_copy(StorageRecord& record, Tier from, Tier to);
  void start_disk_copy(StorageRecord& record, std::byte* memory, Direction direction);
  void start_memory_copy(StorageRecord& record, Tier from, Tier to);
  void start_recomputation(StorageRecord& record);
  void complete(StorageRecord& record, Tier from, Tier to, const TransferResult& result);
  enum class Ending : std::uint8_t { kDone, kFailed, kCancelled };
  void finish(StorageRecord& record, Tier from, Tier to, Ending ending);
  bool land(StorageRecord& record);
  bool open_again(StorageRecord& record);
  void note_arrival(StorageRecord& record);
  void free_memory(StorageRecord& record, Tier tier);
  void retire(StorageRecord& record);
  bool verify_clean(StorageRecord& record);
  static bool close_to_users(StorageRecord& record);
  bool may_leave(const StorageRecord& record) const;
  Bytes evict_to(StorageRecord& record, std::optional<Tier> tier);
  bool demote(StorageRecord& record);
  std::optional<Tier> reserve(StorageRecord& record, std::optional<Tier> stated);
  bool reserve_host(StorageRecord& record);
  bool reserve_extent(StorageRecord& record);
  [[nodiscard]] Bytes copied(const StorageRecord& record) const;
  [[nodiscard]] Bytes bytes_on_disk(const StorageRecord& record) const;
  bool demote_for(Bytes bytes);
  std::string revoked_text(const StorageRecord& record) const;
  void refuse(StorageRecord& record);
  void refuse_all(StorageRecord& record);

  std::mutex& mutex_;
  std::condition_variable& settled_;
  DeviceTier& memory_;
  HostMemory host_;
  Framework& framework_;
  MoverOptions options_;
  residency::ResidencyMachine machine_;
  std::shared_ptr<Spool> spool_;
  std::unique_ptr<Transfers> transfers_;
  std::deque<StorageRecord> records_;  // addresses are stable
  std::vector<StorageRecord*> unused_;
  std::vector<StorageRecord*> live_;
  VictimOrder order_;
  std::vector<Action> spare_actions_;  // memory for the next event's
  bool addresses_shown_ = false;
  Bytes leaving_{};
  std::atomic<std::uint64_t> away_{0};
  std::size_t in_flight_ = 0;
  std::string failure_;
  std::uint64_t failures_in_a_row_ = 0;
  MoveStatistics statistics_;
  MoveTally tally_;
};

}  // namespace spillway::runtime
