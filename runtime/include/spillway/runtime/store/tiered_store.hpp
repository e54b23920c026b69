// SPDX-License-Identifier: Apache-2.0
// Keeps bytes by id on the tiers below a framework's own memory: host memory within a budget, then
// the spool. For adapters that decide themselves what leaves and when, and need no Engine.
//
//     reserve -> empty --store--> storing --done(0)--> stored --load--> stored, and a copy of it
//                  ^                 |                    |
//                  +-- done(errno) --+                    +--demote--> stored, on the disk
//                  +-- cancel -------+
//     drop: from every state; what is in flight ends first
//
// Other places are mapped: their bytes are read and written in place, at one address until the
// place is dropped, on the host or as pages of a file (mapped_file.hpp).
//
// Ownership: the store owns its copies. Memory that it is given stays the caller's, and must be
// valid and untouched (for a load: unread too) until `done`. Copies to and from host memory are
// made by the calling thread, before `store` and `load` return; those of the disk by the threads of
// Transfers. Thread-safe; no lock is held while `done` runs. A call that the diagram does not have
// is an InternalError. What the disk does comes as an errno in `done`, and loses nothing: after a
// failed store the place is empty, after a failed load the copy is where it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/machine/tier.hpp"
#include "spillway/runtime/memory/host_memory.hpp"
#include "spillway/runtime/move_tally.hpp"
#include "spillway/runtime/store/mapped_file.hpp"
#include "spillway/runtime/transfer/spool.hpp"
#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::runtime {

/// Names what was reserved. Never given twice by one store.
enum class StoredId : std::uint64_t {};

struct TieredStoreOptions {
  Bytes host_budget{};  ///< 0: no host tier
  SpoolOptions spool;
  bool verify = false;  ///< compare a checksum of what is loaded; EBADMSG where it differs
};

/// Consistent with each other at one moment.
struct StoreUsage {
  Bytes host{};  ///< in whole pages
  Bytes host_budget{};
  Bytes disk{};
  std::uint64_t places = 0;  ///< reserved and not dropped

  bool operator==(const StoreUsage&) const = default;
};

/// Since the store was made. Bytes are those of copies that succeeded.
struct StoreStatistics {
  Bytes stored_on_host{};
  Bytes stored_on_disk{};  ///< those that were demoted too
  Bytes loaded_from_host{};
  Bytes loaded_from_disk{};
  std::uint64_t cancelled = 0;
  std::uint64_t failed = 0;   ///< copies
  std::uint64_t refused = 0;  ///< reservations
};

/// Called once, with 0 or an errno.
using StoreDone = std::function<void(int error)>;

class TieredStore {
 public:
  /// Opens nothing yet.
  TieredStore(TieredStoreOptions options, std::unique_ptr<Transfers> transfers);
  /// Waits for what is in flight. The caller has stopped calling.
  ~TieredStore();
  TieredStore(const TieredStore&) = delete;
  TieredStore& operator=(const TieredStore&) = delete;

  /// Room for `bytes` (> 0): on the host where that has room, else on the disk; on the disk alone
  /// if `fastest` says so. Nothing where neither has room: `full_reason`. Throws UserError if the
  /// spool file cannot be opened. `made_by`, interned, names what is to lie there in top_movers().
  std::optional<StoredId> reserve(Bytes bytes, Tier fastest = Tier::kHost,
                                  const char* made_by = nullptr);
  /// Why `reserve` or `map` last returned nothing: need, have, short, and what to do.
  [[nodiscard]] std::string full_reason() const;

  /// Throws UserError if no transfer thread can be started; the place is empty then.
  void store(StoredId id, const std::byte* from, StoreDone done);
  /// Any number at once. Throws likewise.
  void load(StoredId id, std::byte* to, StoreDone done);
  /// Takes back a store of which nothing has started: `done` is never called, and the place is
  /// empty. False if it has started or ended.
  bool cancel(StoredId id);
  /// Lets a copy that waits in the queue go first.
  void hurry(StoredId id);
  /// Copies what is stored on the host to the disk and gives back its host memory when that is
  /// done. False, and `done` is never called, if it lies on the disk or the disk has no room.
  bool demote(StoredId id, StoreDone done);
  void drop(StoredId id);

  struct Mapped {
    StoredId id{};
    std::byte* data = nullptr;
  };
  /// Room for `bytes` (> 0), whatever they are at first, in place: on the host where that has room,
  /// else on the disk. Nothing where neither has room, the kernel refuses, or the file cannot have
  /// its space before it is written, so that who writes may find the disk full: `full_reason`.
  /// Throws as `reserve` does.
  std::optional<Mapped> map(Bytes bytes, const char* made_by = nullptr);
  /// These are mapped_file.hpp's, on the calling thread. A place on the host needs none but the
  /// writes. Those that return something return an errno.
  int put_aside(StoredId id);
  int bring(StoredId id, Access access);
  void begin_writing(StoredId id);
  void give_back(StoredId id);
  void write(StoredId id, const std::byte* from);
  int write_aside(StoredId id, const std::byte* from);

  [[nodiscard]] Bytes bytes(StoredId id) const;
  /// The tier that its bytes are on, or will be.
  [[nodiscard]] Tier tier(StoredId id) const;
  [[nodiscard]] StoreUsage usage() const;
  [[nodiscard]] StoreStatistics statistics() const;
  /// What moved most of the bytes in the statistics, largest first.
  [[nodiscard]] std::vector<MoveTally::Moved> top_movers(std::size_t count) const;

  /// Returns when nothing is in flight and every `done` has returned.
  void drain() { transfers_->drain(); }
  /// How bytes move, for people.
  [[nodiscard]] std::string transfers() const { return transfers_->description(); }

  /// See Transfers::before_fork. Nobody gets in until after_fork(), in parent and child; what the
  /// child writes into mapped places is its own, and stays in memory whatever is put aside. It gets
  /// no more of the disk.
  void before_fork();
  void after_fork(bool in_child);

 private:
  enum class State : std::uint8_t { kEmpty, kStoring, kStored, kMapped };
  struct Place {
    Bytes bytes{};
    State state = State::kEmpty;
    bool demoting = false;
    bool dropped = false;         // freed when nothing is in flight
    std::uint32_t in_flight = 0;  // copies
    std::byte* host = nullptr;    // owned
    MappedExtent mapped{};        // owned
    Extent disk{};                // of a copy, owned; no bytes: none
    std::uint64_t checksum = 0;
    TransferId transfer = 0;  // the last one submitted
    const char* made_by = nullptr;
  };
  using Places = std::unordered_map<std::uint64_t, Place>;

  /// Nothing where the budget has no more, or in a forked child, of which `full_reason` tells.
  std::optional<Extent> extent_for_locked(Bytes bytes, Spool& spool);
  void refuse_locked(std::string reason);
  StoredId add_locked(const Place& place);
  Place& place_locked(StoredId id);
  const Place& place_locked(StoredId id) const;
  /// A copy of the place begins; until it ends the place stays, and what is returned is good.
  static Place begin_copy_locked(Place& place);
  /// Submits a transfer between `memory` and the disk. The lock is not held.
  void submit(StoredId id, Direction direction, std::byte* memory, const Place& begun,
              TransferDone done);
  // The memory that these return is freed with it: after the lock.
  /// One copy of the place has ended; frees it if it was dropped meanwhile.
  [[nodiscard]] HostPages end_copy_locked(StoredId id, Place& place);
  [[nodiscard]] HostPages free_locked(Place& place);
  [[nodiscard]] HostPages free_host_locked(Place& place);
  Place mapped_place(StoredId id);
  /// Bytes of a mapped place moved, or an error says that they did not, which it returns.
  int end_move(Bytes StoreStatistics::*counter, const Place& place, int error);
  /// A copy of the place succeeded: `counter` is that of its way.
  void count_moved_locked(Bytes& counter, const Place& place);
  void end_store(StoredId id, const Place& begun, int error);
  int end_load(StoredId id, const Place& begun, const std::byte* to, int error);
  void end_demotion(StoredId id, int error);

  const TieredStoreOptions options_;
  mutable std::mutex mutex_;
  HostMemory host_;
  Spool spool_;  // of copies
  MappedFile mapped_;
  Places places_;
  std::uint64_t last_id_ = 0;
  StoreStatistics statistics_;
  MoveTally tally_;
  std::string full_reason_;
  bool in_child_ = false;                 // changes where there is one thread
  bool forked_ = false;                   // ever; guarded by mutex_
  std::unique_ptr<Transfers> transfers_;  // last: its threads use all of the above
};

}  // namespace spillway::runtime
