// SPDX-License-Identifier: Apache-2.0
// The device tier on a machine whose device is its own RAM: an arena for storages, slabs for small
// objects, one budget over both. What users see of it is DeviceTier.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/arena.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"
#include "spillway/runtime/memory/slabs.hpp"

namespace spillway::runtime {

class DeviceMemory final : public DeviceTier {
 public:
  DeviceMemory(Bytes limit, const ArenaOptions& options);

  Allocation allocate(Bytes bytes, Overbooking overbooking) override;

  void free_later(std::byte* pointer) noexcept override;
  void take_freed(std::vector<DeviceBlock*>& records) override;
  void free_block(DeviceBlock& block) override { arena_.free_block(as_block(block)); }

  /// Not where mappings are short (see MappingCount).
  void seal(DeviceBlock& block) override { arena_.seal(as_block(block)); }
  [[nodiscard]] bool unseal(DeviceBlock& block) override { return Arena::unseal(as_block(block)); }
  /// Its pages are counted as lingering until others take them.
  void evict(DeviceBlock& block) override { arena_.evict(as_block(block)); }
  Allocation restore(DeviceBlock& block, Overbooking overbooking) override;
  /// Into the pages of a landing, where the kernel moves pages (see Arena).
  Allocation restore_apart(DeviceBlock& block, Overbooking overbooking) override;
  [[nodiscard]] bool land(DeviceBlock& block) override { return arena_.land(as_block(block)); }
  void abandon_landing(DeviceBlock& block) override { arena_.abandon_landing(as_block(block)); }

  /// From the start of the first page on which the user's bytes lie.
  [[nodiscard]] CopyRange copy_range(const DeviceBlock& block) const override;
  [[nodiscard]] const std::byte* bytes_in_copy(const DeviceBlock& block) const override {
    return as_block(block).holder().address;
  }
  [[nodiscard]] Bytes resident(const DeviceBlock& block) const override {
    return {as_block(block).resident};
  }
  [[nodiscard]] Bytes held(const DeviceBlock& block) const override {
    return {as_block(block).held()};
  }
  [[nodiscard]] Bytes needed(const DeviceBlock& block) const override {
    return {Arena::pages_of(as_block(block), {block.bytes})};
  }
  [[nodiscard]] Bytes rounding(const DeviceBlock& block) const override;
  [[nodiscard]] Bytes small_rounding() const override { return slabs_.unasked(); }

  /// See Arena::before_fork.
  void before_fork() override { arena_.before_fork(); }

  void set_limit(Bytes limit) override { budget_.set_limit(limit); }
  Bytes obey_limit() override;
  void set_small_objects(SmallObjects small) override { small_ = small; }
  void set_poison(Poison poison) override { arena_.set_poison(poison); }
  void set_cache_slack(double share) override { cache_slack_ = share; }
  void release_idle() override;

  [[nodiscard]] const MemoryBudget& budget() const override { return budget_; }
  [[nodiscard]] Bytes live() const override { return budget_.used() - cached() - lingering(); }
  [[nodiscard]] Bytes peak_live() const override { return peak_live_; }
  void reset_peak() override;
  [[nodiscard]] Block* find(const void* address) const override { return arena_.find(address); }

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] MemoryRefusal refusal() const override;

  // Of this tier alone.
  /// Pages of the spans of small objects that have no object. They count as live.
  [[nodiscard]] Bytes in_empty_spans() const { return slabs_.in_empty_spans(); }
  /// These are idle from then on.
  void drop_empty_spans();
  [[nodiscard]] Bytes cached() const { return arena_.cached(); }
  [[nodiscard]] Bytes lingering() const { return arena_.lingering(); }
  [[nodiscard]] const Arena& arena() const { return arena_; }

 private:
  Allocation allocate_block(Bytes bytes, Overbooking overbooking, Colouring colouring);
  Allocation fill(Block& block, Bytes bytes, Overbooking overbooking);
  void trim_cache(Bytes wanted);
  void give_back(Bytes bytes);

  MemoryBudget budget_;
  Arena arena_;
  Slabs slabs_;
  std::vector<Block*> empty_spans_;  // on their way to the arena
  SmallObjects small_ = SmallObjects::kSlabs;
  double cache_slack_ = 0.125;
  Bytes peak_live_{};
  std::atomic<Block*> freed_blocks_{nullptr};
  std::atomic<std::byte*> freed_objects_{nullptr};
};

}  // namespace spillway::runtime
