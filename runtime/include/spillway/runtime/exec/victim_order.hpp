// SPDX-License-Identifier: Apache-2.0
// The storages that may leave, in the order of leaving (residency/victims.hpp), kept from shortage
// to shortage.
//
//     ops, without a lock   use: stamps, push ---.
//     mover, engine         state, owner, kept: push ---> stale records
//     a shortage            choose: puts the stale ones in place, then takes from the front
//
// Distances to the next use change with every op, but within each of five groups not which of two
// is the larger:
//
//     never used again           size
//     next use known             the use, furthest first      dirty and clean apart, since
//     unknown, or past           the last use, oldest first   a clean one counts as further away
//
// The choice merges the five. When a predicted use is past, its record moves from the second row
// to the third; only the near end of the second row is searched for such records. A record that
// is pinned when it is met at the front is set aside until its last pin ends. So a shortage costs
// what was used since the last shortage and what leaves, each times the logarithm of what is
// live, and never a look at everything that stays.
//
// All functions need the engine's lock. Owns no record; records outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/residency/victims.hpp"
#include "spillway/runtime/exec/stale_records.hpp"
#include "spillway/runtime/exec/storage_record.hpp"

namespace spillway::runtime {

/// Whether nothing but a pin can keep the storage where it is, as far as the engine knows.
bool leaves_unless_pinned(const StorageRecord& record, Bytes min_size);

class VictimOrder {
 public:
  /// The list in which records announce themselves. Any thread.
  [[nodiscard]] StaleRecords& stale() { return stale_; }

  /// As residency::choose_victims from all records that can leave (`leaves_unless_pinned`, and no
  /// pin). `now` never falls from call to call.
  std::vector<StorageRecord*> choose(Bytes needed, std::uint64_t now, Bytes min_size);

  /// Keeps it from being chosen until something of it changes.
  void set_aside(const StorageRecord& record);

 private:
  enum Group : std::uint8_t {
    kNever,
    kKnownDirty,
    kKnownClean,
    kUnknownDirty,
    kUnknownClean,
    kPinned,
    kGroups
  };
  struct Entry {
    std::uint64_t rank;  // within the group, lowest first
    residency::Candidate candidate;
    StorageRecord* record;
  };
  struct Before {
    bool operator()(const Entry& a, const Entry& b) const;
  };
  using Queue = std::set<Entry, Before>;
  struct Place {
    Group group;
    Queue::iterator entry;
  };
  class Merged;

  static Group group_of(const residency::Candidate& candidate, std::uint64_t now);
  static Entry entry_of(StorageRecord& record, const residency::Candidate& candidate, Group group);
  void put(StorageRecord& record, std::uint64_t now, Bytes min_size);
  void move_past(Group known, Group unknown, std::uint64_t now);
  Queue::iterator park(Queue::iterator entry, Group group);

  StaleRecords stale_;
  std::array<Queue, kGroups> queues_;
  std::unordered_map<const StorageRecord*, Place> places_;
};

}  // namespace spillway::runtime
