// SPDX-License-Identifier: Apache-2.0
// The memory side of the simulator: the driver of a ResidencyMachine whose copies take virtual
// time.
//
// It keeps the driver's contract with the machine (residency_machine.hpp) as the engine's mover
// does: room is there before an event that may start a copy, every copy ends exactly once. What it
// adds is when: copies wait for their link and, into the device, for room.
//
// An *item* is one storage from its creation to its death, over the end of a step too; the trace's
// row of it may change there. Time moves by advance() and by step_to_next_end() alone.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "copy_queues.hpp"
#include "measurements.hpp"
#include "spillway/planning/problem.hpp"
#include "spillway/planning/sim/simulator.hpp"
#include "spillway/residency/residency_machine.hpp"

namespace spillway::planning::sim {

class MemoryModel {
 public:
  using ItemIndex = std::uint32_t;

  /// Refers to all of them.
  MemoryModel(const Problem& problem, TimeNs page_fault_ns, Measurements& measurements,
              SimulationObserver* observer);

  /// Resident, in room that the caller has made sure of.
  ItemIndex create(StorageId storage, Bytes bytes);
  /// Moves a new item to where it is at the beginning, in no time.
  void place(ItemIndex item, const PlanPlace& place);
  /// The step is over: the item is another row of the trace from now on.
  void rename(ItemIndex item, StorageId storage);

  // Actions of a plan.
  void evict(ItemIndex item, Tier tier);
  void demote(ItemIndex item);
  void fetch(ItemIndex item);
  void forget(ItemIndex item);
  void drop(ItemIndex item);

  // Called as the step computes.
  /// The item is about to be used: it is brought in ahead of all that nobody waits for, and stays
  /// if it was about to leave. Returns true if nobody had asked for it before.
  bool demand(ItemIndex item);
  void use(ItemIndex item, bool writes);
  void die(ItemIndex item);
  /// A drop that waits for the end of a copy is taken back; false if there was none.
  bool withdraw_drop(ItemIndex item);
  /// A dropped item takes its room again, and is there when the recomputation has ended.
  void begin_recomputation(ItemIndex item);
  void end_recomputation(ItemIndex item);
  /// Memory of the device that belongs to no item.
  void hold(Bytes bytes);
  void release(Bytes bytes);
  /// While computing waits for room or is about to take it, only what it waits for may take any.
  void keep_room_for_computing(bool keep);
  /// Where nothing is under way: lets fetches take that room all the same, since one may free what
  /// computing waits for, by the copy on the host that it leaves behind. False if none began.
  bool admit_fetches();
  /// Where that does not help either: what was demanded makes room for the fetches that were queued
  /// before, since they may free what computing waits for. It leaves again, or its fetch has its
  /// turn after theirs, and it has to be demanded again. Once until computing has taken its room;
  /// false if nothing could make room.
  bool give_way();
  [[nodiscard]] bool gave_way() const { return gave_way_; }

  [[nodiscard]] residency::ResidencyState state(ItemIndex item) const {
    return machine_.state(items_[item].id);
  }
  /// Accessible on the device.
  [[nodiscard]] bool is_here(ItemIndex item) const;
  /// A copy or a queued one, or an eviction that waits for room.
  [[nodiscard]] bool is_moving(ItemIndex item) const;
  [[nodiscard]] StorageId storage(ItemIndex item) const { return items_[item].storage; }
  [[nodiscard]] std::array<Bytes, kTierCount> levels() const;
  [[nodiscard]] bool has_room(Bytes bytes) const {
    return device_used() + bytes <= problem_.budgets[Tier::kDevice];
  }
  [[nodiscard]] Bytes device_used() const { return machine_.used(Tier::kDevice) + held_; }
  [[nodiscard]] const residency::Statistics& statistics() const { return machine_.statistics(); }
  /// The first eviction that waits for room on a slower tier, and that tier.
  [[nodiscard]] std::optional<std::pair<ItemIndex, Tier>> waiting_eviction() const;

  // Time.
  [[nodiscard]] TimeNs now() const { return now_; }
  void set_op(OpIndex op) { op_ = op; }
  /// Ends all copies up to `time`, and begins those that can. Never backwards.
  void advance(TimeNs time);
  /// Goes on to the end of the next copy; false if none is under way.
  bool step_to_next_end();

 private:
  /// A fetch that stands in a queue, its Use not sent yet.
  struct QueuedFetch {
    bool urgent = false;      // queued ahead
    bool forgets = false;     // its slower copies on arrival
    std::uint64_t order = 0;  // its turn where it is not urgent; 0: the last
  };
  /// For room on the tier.
  struct WaitsToLeave {
    Tier tier = Tier::kHost;
  };
  /// For the tier, when the copy in flight has ended.
  struct LeavesAgain {
    Tier tier = Tier::kHost;
  };
  /// When the copy in flight has ended.
  struct IsDroppedNext {};
  /// A wish of the plan for an item that cannot be met yet.
  using Pending = std::variant<std::monostate, WaitsToLeave, LeavesAgain, IsDroppedNext>;

  /// On the way through the host: see host_passage.cpp.
  struct Passage {
    bool meant_for_disk = false;  // the plan has its slower copy there
    bool goes_on = false;         // to the disk, when it is on the host
    bool has_room = false;        // promised on the disk, for that
  };

  struct Item {
    StorageId id{};  // of the machine
    StorageId storage{};
    Bytes bytes{};
    std::uint32_t ticket = 0;  // of its latest queued fetch
    std::optional<QueuedFetch> fetch{};
    Pending pending{};
    Passage passage{};
    bool on_device = true;  // has room there, if only for copies under way
  };

  /// An item that was not simply there when it was demanded.
  struct Demanded {
    ItemIndex item = 0;
    Tier tier = Tier::kHost;             // that it was on, or was about to leave for
    bool was_leaving = false;            // its copy may not have been begun
    std::optional<QueuedFetch> fetch{};  // that waited for its turn
  };
  [[nodiscard]] std::optional<Demanded> as_demanded(ItemIndex item) const;

  /// The tier that it waits for room on, if it does.
  static std::optional<Tier> waits_for(const Item& item) {
    const auto* waits = std::get_if<WaitsToLeave>(&item.pending);
    return waits == nullptr ? std::nullopt : std::optional(waits->tier);
  }
  /// It is used or on its way back: only a drop stays pending.
  static void keep(Item& item) {
    if (!std::holds_alternative<IsDroppedNext>(item.pending)) item.pending = {};
  }

  void send(ItemIndex item, residency::EventKind kind, Tier tier = Tier::kDevice);
  [[nodiscard]] bool has_slower_copy(const Item& item) const;
  [[nodiscard]] bool has_link(LinkKind link) const {
    return problem_.machine.link(link).has_value();
  }
  [[nodiscard]] Bytes room(Tier tier) const;

  void leave(ItemIndex item, Tier tier);
  bool try_leave(ItemIndex item);
  void start_demotion(ItemIndex item);
  bool try_demote(ItemIndex item);
  void promise_disk(Item& item);
  void break_promise(Item& item);
  void retry_waiting();
  void mean_for_disk(ItemIndex item);
  bool clear_passage();
  bool leaves_passage(ItemIndex item);
  void queue_fetch(ItemIndex item, QueuedFetch fetch);

  void begin_copies();
  enum class Begun { kNot, kWithACopy, kWithout };
  bool begin_copy(LinkKind link, const Copy& copy);
  Begun begin_fetch(LinkKind link, const Copy& copy);
  [[nodiscard]] bool is_void(const Copy& copy) const;
  [[nodiscard]] Bytes owed_to_earlier(LinkKind link, const Copy& copy) const;
  void end_copy(LinkKind link);
  void settle(ItemIndex item);
  [[nodiscard]] TimeNs duration(LinkKind link, const Copy& copy) const;
  [[nodiscard]] StorageRole role(const Item& item) const {
    return problem_.trace.storages.role[to_value(item.storage)];
  }
  void note_presence(Item& item, Bytes device_before);
  void note_levels() { measurements_.note_levels(now_, op_, levels()); }

  const Problem& problem_;
  TimeNs page_fault_ns_;
  Measurements& measurements_;
  SimulationObserver* observer_;
  residency::ResidencyMachine machine_;
  std::vector<residency::Action> actions_;  // of the last event
  std::vector<Item> items_;
  CopyQueues queues_;
  std::deque<ItemIndex> waiting_;   // to leave; void where the item no longer waits
  std::vector<ItemIndex> passing_;  // meant for the disk; others too
  std::vector<Demanded> demanded_;  // since computing took room last
  bool gave_way_ = false;           // since computing took room last
  std::uint64_t fetches_queued_ = 0;
  Bytes held_{};
  Bytes promised_disk_{};  // to items on the host that are to go on to the disk
  bool room_is_for_computing_ = false;
  TimeNs now_ = 0;
  OpIndex op_{};
};

}  // namespace spillway::planning::sim
