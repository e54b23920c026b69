// SPDX-License-Identifier: Apache-2.0
// The memory side of the simulator: the driver of a ResidencyMachine whose copies take virtual
// time.
//
// It keeps the driver's contract with the machine (residency_machine.hpp) as the engine's mover
// does: room is there before an event that may start a copy, every copy ends exactly once. What it
// adds is when: copies wait for their link and, into the device, for room.
//
// This is the facade that computing sees. Its parts have one job each:
//
//     Holdings      what each tier holds, and of which items: the machine, the levels told
//     Departures    what leaves, and waits for room to       (HostPassage: by way of the host)
//     Fetches       what is to come in, and the room owed to it
//     CopyTraffic   the copies on their links, in virtual time
//     Demands       what computing asked for, and may have to give back
//
// What may let a copy begin is followed by CopyTraffic::begin(), here or where a copy ends.
#pragma once

#include <optional>
#include <utility>

#include "copy_queues.hpp"
#include "copy_traffic.hpp"
#include "demands.hpp"
#include "departures.hpp"
#include "fetches.hpp"
#include "holdings.hpp"
#include "measurements.hpp"
#include "spillway/planning/problem.hpp"
#include "spillway/planning/sim/simulator.hpp"

namespace spillway::planning::sim {

class MemoryModel {
 public:
  /// Refers to all of them.
  MemoryModel(const Problem& problem, TimeNs page_fault_ns, Measurements& measurements,
              SimulationObserver* observer);
  MemoryModel(const MemoryModel&) = delete;
  MemoryModel& operator=(const MemoryModel&) = delete;

  ItemIndex create(StorageId storage, Bytes bytes) { return holdings_.create(storage, bytes); }
  void place(ItemIndex item, const PlanPlace& place) { holdings_.place(item, place); }
  void rename(ItemIndex item, StorageId storage) { holdings_.rename(item, storage); }

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
  void hold(Bytes bytes) { holdings_.hold(bytes); }
  void release(Bytes bytes);
  /// While computing waits for room or is about to take it, only what it waits for may take any.
  void keep_room_for_computing(bool keep);
  /// Call it where nothing is under way. Lets fetches take that room all the same, since one may
  /// free what computing waits for, by the copy on the host that it leaves behind. False if none
  /// began.
  bool admit_fetches();
  /// Call it where that does not help: what was demanded makes room for the fetches that were
  /// queued before, since they may free what computing waits for. It leaves again, or its fetch has
  /// its turn after theirs, and it has to be demanded again. Once until computing has taken its
  /// room; false if nothing could make room.
  bool give_way();
  [[nodiscard]] bool gave_way() const { return demands_.gave_way(); }

  /// Where the items are, and what the tiers hold.
  [[nodiscard]] const Holdings& holdings() const { return holdings_; }
  /// A copy or a queued one, or an eviction that waits for room.
  [[nodiscard]] bool is_moving(ItemIndex item) const { return departures_.is_moving(item); }
  /// The bytes that computing has to leave free when it takes room. While an eviction waits for
  /// room on a slower tier, the queued fetches up to the last that frees some there by forgetting
  /// come first: what computing takes may leave by that eviction alone.
  [[nodiscard]] Bytes owed_to_forgetting() const { return traffic_.owed_to_forgetting(); }
  /// The first eviction that waits for room on a slower tier, and that tier.
  [[nodiscard]] std::optional<std::pair<ItemIndex, Tier>> waiting_eviction() const {
    return departures_.first_in_line();
  }

  // Time.
  void set_op(OpIndex op) { holdings_.set_op(op); }
  /// Ends all copies up to `time`, and begins those that can. Never backwards.
  void advance(TimeNs time) { traffic_.advance(time); }
  /// Goes on to the end of the next copy; false if none is under way.
  bool step_to_next_end() { return traffic_.step_to_next_end(); }

 private:
  Holdings holdings_;
  CopyQueues queues_;
  Departures departures_;
  Fetches fetches_;
  CopyTraffic traffic_;
  Demands demands_;
};

}  // namespace spillway::planning::sim
