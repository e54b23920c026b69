// SPDX-License-Identifier: Apache-2.0
// The residency rules a second time, written from the tables in docs/residency.md alone.
//
// Naive on purpose, and a different idea: it keeps the list of events since the flight began and
// decides at the flight's end by reading that list, where the machine keeps flags; used bytes are
// summed over all storages when asked for. It shares the vocabulary (events, actions, states) with
// the machine and no code. Slow; for tests only. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/residency/residency_machine.hpp"

namespace spillway::testing {

/// A rule deliberately broken, to prove that the comparison notices.
enum class Mutation {
  kNone,
  kReadDoesNotKeep,           ///< Evicting: Use is ignored
  kSpoiledCopyCounts,         ///< Evicting: a copy spoiled by a write stays
  kEvictOverridesWrite,       ///< Evicting: Evict after Write is obeyed
  kWriteKeepsCopies,          ///< Resident: Write does not free slower copies
  kCleanEvictionCopies,       ///< Resident: Evict copies although a copy exists
  kDeathFreesAtOnce,          ///< memory under a copy is freed
  kFailedEvictionLeaks,       ///< the target stays held
  kDemotionIgnoresUse,        ///< Demoting: Use is ignored
  kFetchDropsCopies,          ///< Fetching: slower copies are freed on arrival
  kFetchIgnoresEvict,         ///< Fetching: always wanted
  kFetchKeepsStaleCopies,     ///< Fetching: stale copies stay
  kFailedFetchGoesToDisk,     ///< Fetching: back to disk although the host has a copy
  kCancelledFailureReported,  ///< a failure after Cancel is reported
  kExemptKeepsCopies,         ///< Exempt does not free slower copies
  kExemptLostInDemotion,      ///< Demoting: Exempt is only a Write
  kNoWakeOnFailure,           ///< waiters sleep for ever
  kDropKeepsSlowerCopies,     ///< Drop frees the device alone
};
inline constexpr Mutation kLastMutation = Mutation::kDropKeepsSlowerCopies;
std::string_view to_string(Mutation mutation);
/// The same as a test's name may be.
std::string test_name(Mutation mutation);

class ResidencyReference {
 public:
  using Event = residency::Event;
  using EventKind = residency::EventKind;
  using Action = residency::Action;
  using ResidencyState = residency::ResidencyState;
  using Actions = std::vector<Action>;

  explicit ResidencyReference(Mutation mutation = Mutation::kNone) : mutation_(mutation) {}

  /// False if the id was given before, or is zero.
  bool create(StorageId id, Bytes bytes);

  /// The actions, or nothing where the tables say `error`.
  std::optional<Actions> on(const Event& event);

  [[nodiscard]] bool contains(StorageId id) const { return storages_.contains(id); }
  [[nodiscard]] ResidencyState state(StorageId id) const { return storages_.at(id).state; }
  [[nodiscard]] bool has_copy(StorageId id, Tier tier) const;
  [[nodiscard]] Bytes used(Tier tier) const;
  [[nodiscard]] std::vector<StorageId> live() const;

 private:
  struct Storage {
    StorageId id{};
    Bytes bytes{};
    ResidencyState state = ResidencyState::kResident;
    std::set<Tier> held{Tier::kDevice};
    std::set<Tier> copies{Tier::kDevice};
    Tier from = Tier::kDevice;  // of the flight
    Tier to = Tier::kDevice;
    std::vector<Event> heard;  // since the flight began
  };

  // The memory by `heard`.
  struct Memory {
    bool wanted;
    bool written;
    bool exempting;
    bool keep_host;
    bool cancelled;
  };

  [[nodiscard]] bool is(Mutation mutation) const { return mutation_ == mutation; }
  static bool in_flight(const Storage& s);
  static bool dying(const Storage& s);
  bool is_error(const Storage& s, const Event& event) const;
  [[nodiscard]] Memory remembered(const Storage& s) const;

  Actions settled(Storage& s, const Event& event);
  Actions resident(Storage& s, const Event& event);
  Actions away(Storage& s, const Event& event);
  Actions leave(Storage& s, const Event& event);
  Actions fetch(Storage& s, std::vector<Event> heard);
  Actions ended(Storage& s, bool completed);
  Actions eviction_ended(Storage& s, bool completed, const Memory& memory);
  Actions demotion_ended(Storage& s, bool completed, const Memory& memory);
  Actions fetch_ended(Storage& s, bool completed, const Memory& memory);
  static Actions fly(Storage& s, Tier from, Tier to, ResidencyState state);
  static void free(Storage& s, std::initializer_list<Tier> tiers, Actions& actions);
  static void free_all(Storage& s, Actions& actions);
  void report(const Storage& s, const Memory& memory, Actions& actions) const;
  void land(Storage& s, ResidencyState state, bool completed, Actions& actions) const;

  Mutation mutation_;
  std::map<StorageId, Storage> storages_;
  std::set<StorageId> ever_;
};

}  // namespace spillway::testing
