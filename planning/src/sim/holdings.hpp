// SPDX-License-Identifier: Apache-2.0
// What each tier holds now, and of which items: the driver's side of a ResidencyMachine.
//
//     event of an item  -->  the machine  -->  measurements: presence by role, levels
//                                         -->  the observer
//
// It sends what it is told to and decides nothing. Each event is of one item, so that the bytes
// by which the device changes with it are that item's.
#pragma once

#include <array>
#include <vector>

#include "item.hpp"
#include "measurements.hpp"
#include "spillway/planning/problem.hpp"
#include "spillway/planning/sim/simulator.hpp"
#include "spillway/residency/residency_machine.hpp"

namespace spillway::planning::sim {

class Holdings {
 public:
  /// Refers to all of them.
  Holdings(const Problem& problem, Measurements& measurements, SimulationObserver* observer)
      : problem_(problem), measurements_(measurements), observer_(observer) {}

  /// Resident, in room that the caller has made sure of.
  ItemIndex create(StorageId storage, Bytes bytes);
  /// Moves a new item to where it is at the beginning, in no time.
  void place(ItemIndex item, const PlanPlace& place);
  /// The step is over: the item is another row of the trace from now on.
  void rename(ItemIndex item, StorageId storage);
  /// True if the machine answered with actions.
  bool send(ItemIndex item, residency::EventKind kind, Tier tier = Tier::kDevice) {
    actions_.clear();
    Item& of = items_[item];
    if (kind == residency::EventKind::kWrite || kind == residency::EventKind::kDrop) {
      of.meant_for_disk = false;
    }
    const residency::Event event{kind, of.id, tier};
    const Bytes before = machine_.used(Tier::kDevice);
    machine_.on(event, now_, actions_);
    const Bytes after = machine_.used(Tier::kDevice);
    if (after != before) note_presence(of, after > before);
    if (observer_ != nullptr) observer_->on_event(machine_, event, now_, actions_);
    return !actions_.empty();
  }
  /// Nowhere from now on, to be recomputed.
  void drop(ItemIndex item) {
    measurements_.report().dropped += items_[item].bytes;
    send(item, residency::EventKind::kDrop);
    note_levels();
  }
  /// Memory of the device that belongs to no item.
  void hold(Bytes bytes) {
    of_no_item_ += bytes;
    note_levels();
  }
  void release(Bytes bytes) {
    of_no_item_ -= bytes;
    note_levels();
  }
  void note_levels() { measurements_.note_levels(now_, op_, levels()); }

  Item& operator[](ItemIndex item) { return items_[item]; }
  const Item& operator[](ItemIndex item) const { return items_[item]; }
  [[nodiscard]] residency::ResidencyState state(ItemIndex item) const {
    return machine_.state(items_[item].id);
  }
  /// Accessible on the device.
  [[nodiscard]] bool is_here(ItemIndex item) const {
    const residency::ResidencyState now = state(item);
    return now == residency::ResidencyState::kResident ||
           now == residency::ResidencyState::kEvicting;
  }
  [[nodiscard]] bool has_copy(const Item& item, Tier tier) const {
    return machine_.has_copy(item.id, tier);
  }
  [[nodiscard]] bool has_slower_copy(const Item& item) const {
    return has_copy(item, Tier::kHost) || has_copy(item, Tier::kDisk);
  }
  /// False once its last memory is freed.
  [[nodiscard]] bool contains(const Item& item) const { return machine_.contains(item.id); }

  /// With what belongs to no item.
  [[nodiscard]] Bytes used(Tier tier) const {
    return machine_.used(tier) + (tier == Tier::kDevice ? of_no_item_ : Bytes{});
  }
  [[nodiscard]] std::array<Bytes, kTierCount> levels() const {
    return {used(Tier::kDevice), used(Tier::kHost), used(Tier::kDisk)};
  }
  [[nodiscard]] bool has_room(Bytes bytes) const {
    return used(Tier::kDevice) + bytes <= problem_.budgets[Tier::kDevice];
  }
  [[nodiscard]] const residency::Statistics& statistics() const { return machine_.statistics(); }

  /// The time, and the op that computing is at, of what is told from now on.
  void set_now(TimeNs now) { now_ = now; }
  void set_op(OpIndex op) { op_ = op; }
  [[nodiscard]] TimeNs now() const { return now_; }
  [[nodiscard]] OpIndex op() const { return op_; }

 private:
  void note_presence(Item& item, bool on_device) {
    item.on_device = on_device;
    measurements_.note_presence(role(item), on_device, item.bytes);
  }
  [[nodiscard]] StorageRole role(const Item& item) const {
    return problem_.trace.storages.role[item.row];
  }

  const Problem& problem_;
  Measurements& measurements_;
  SimulationObserver* observer_;
  residency::ResidencyMachine machine_;
  std::vector<residency::Action> actions_;  // of the last event
  std::vector<Item> items_;
  Bytes of_no_item_{};
  TimeNs now_ = 0;
  OpIndex op_{};
};

}  // namespace spillway::planning::sim
