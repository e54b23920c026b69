// SPDX-License-Identifier: Apache-2.0
// How a storage leaves the device: copied to a slower tier, or dropped.
//
// It is dropped where the ops that make it again take less time than its copy would, and where they
// find room beside the op that will ask for it. What has a copy already leaves for nothing, and
// what others will be made from is copied: no recomputation waits for another one.
//
// Under the engine's lock. Throws only std::bad_alloc, and DeviceFailure.
#pragma once

#include <atomic>
#include <optional>

#include "budget_share.hpp"
#include "recipe.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

class Departures {
 public:
  Departures(DeviceTier& memory, Mover& mover, const BudgetShare& budget, const MoveRules& rules)
      : memory_(memory), mover_(mover), budget_(budget), rules_(rules) {}
  Departures(const Departures&) = delete;
  Departures& operator=(const Departures&) = delete;

  /// Starts it. Returns the bytes that left at once or are on their way; 0 if the storage is in
  /// use, or no slower tier has room.
  Bytes begin(StorageRecord& record);
  /// The same, before the room is needed, along `path`.
  Bytes begin_ahead(StorageRecord& record, const void* path);

  /// How long making it again would take, where that is worth it going by the last op alone; 0:
  /// it would be copied. Any thread.
  [[nodiscard]] TimeNs time_again(const StorageRecord& record) const;

  /// Whether anything is dropped now. Any thread.
  [[nodiscard]] bool may_drop() const;
  /// Nothing is dropped until `resume`, as often as called.
  void pause() { paused_.fetch_add(1); }
  void resume() { paused_.fetch_sub(1); }
  class Pause {
   public:
    explicit Pause(Departures& departures) : departures_(departures) { departures_.pause(); }
    ~Pause() { departures_.resume(); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Departures& departures_;
  };

 private:
  Bytes drop(StorageRecord& record);
  [[nodiscard]] bool cheaper(TimeNs again, Bytes bytes) const;
  [[nodiscard]] std::optional<Recipe> worthwhile(const StorageRecord& record) const;

  DeviceTier& memory_;
  Mover& mover_;
  const BudgetShare& budget_;
  const MoveRules& rules_;
  std::atomic<std::uint32_t> paused_{0};
};

}  // namespace spillway::runtime
