// SPDX-License-Identifier: Apache-2.0
// A device tier without pages, mappings or faults: blocks of the heap within a budget.
//
// Evicted bytes are overwritten at once, so that they come back by a copy alone. For tests of the
// calls that the engine makes of a tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

class PlainTier final : public DeviceTier {
 public:
  explicit PlainTier(Bytes limit) : budget_(limit) {}

  Allocation allocate(Bytes bytes, Overbooking overbooking) override {
    Heap& block = blocks_.emplace_back(new_block(bytes));
    Allocation result = hold(block, overbooking);
    result.opened = true;
    if (result.pointer == nullptr) {
      blocks_.pop_back();
      return result;
    }
    block.intact = true;
    const std::lock_guard lock(mutex_);
    by_address_[block.address] = &block;
    return result;
  }

  void expect(std::span<const Bytes> blocks) override {
    expected_.assign(blocks.begin(), blocks.end());
  }
  /// As the engine said last. Of the thread whose ops they are.
  [[nodiscard]] const std::vector<Bytes>& expected() const { return expected_; }

  void free_later(std::byte* pointer) noexcept override {
    const std::lock_guard lock(mutex_);
    freed_.push_back(by_address_.at(pointer));
  }
  void take_freed(std::vector<DeviceBlock*>& records) override {
    std::vector<Heap*> freed;
    {
      const std::lock_guard lock(mutex_);
      freed = std::exchange(freed_, {});
    }
    for (Heap* block : freed) {
      if (block->record != nullptr) {
        records.push_back(block);
      } else {
        free_block(*block);
      }
    }
  }
  void free_block(DeviceBlock& block) override { let_go(block); }

  void seal(DeviceBlock& block) override { block.sealed = true; }
  bool unseal(DeviceBlock& block) override {
    block.sealed = false;
    return true;
  }
  void evict(DeviceBlock& block) override {
    let_go(block);
    std::memset(block.address, 0x5a, block.bytes);
    block.intact = block.accessible = block.sealed = false;
  }
  Allocation restore(DeviceBlock& block, Overbooking overbooking) override {
    return hold(static_cast<Heap&>(block), overbooking);
  }
  Allocation restore_apart(DeviceBlock& block, Overbooking overbooking) override {
    return restore(block, overbooking);
  }
  bool land(DeviceBlock&) override { return true; }
  void abandon_landing(DeviceBlock&) override {}

  [[nodiscard]] CopyRange copy_range(const DeviceBlock& block) const override {
    return {.begin = block.address, .bytes = {block.bytes}};
  }
  [[nodiscard]] const std::byte* bytes_in_copy(const DeviceBlock& block) const override {
    return block.address;
  }
  [[nodiscard]] Bytes resident(const DeviceBlock& block) const override {
    return static_cast<const Heap&>(block).held ? Bytes{block.bytes} : Bytes{};
  }
  [[nodiscard]] Bytes held(const DeviceBlock& block) const override { return resident(block); }
  [[nodiscard]] Bytes needed(const DeviceBlock& block) const override { return {block.bytes}; }
  [[nodiscard]] Bytes rounding(const DeviceBlock&) const override { return {}; }
  [[nodiscard]] Bytes small_rounding() const override { return {}; }

  void before_fork() override {}
  void set_limit(Bytes limit) override { budget_.set_limit(limit); }
  Bytes obey_limit() override { return saturating_sub(budget_.used(), budget_.limit()); }
  void set_small_objects(SmallObjects) override {}
  void set_poison(Poison) override {}
  void set_cache_slack(double) override {}
  void release_idle() override {}

  [[nodiscard]] const MemoryBudget& budget() const override { return budget_; }
  [[nodiscard]] Bytes live() const override { return budget_.used(); }
  [[nodiscard]] Bytes peak_live() const override { return budget_.peak(); }
  void reset_peak() override { budget_.reset_peak(); }
  [[nodiscard]] DeviceBlock* find(const void* address) const override {
    const std::lock_guard lock(mutex_);
    const auto after = by_address_.upper_bound(static_cast<const std::byte*>(address));
    if (after == by_address_.begin()) return nullptr;
    Heap* const block = std::prev(after)->second;
    return address < block->address + block->bytes ? block : nullptr;
  }
  [[nodiscard]] std::string description() const override { return "heap"; }
  [[nodiscard]] MemoryRefusal refusal() const override {
    return {.by = "the heap", .reason = "It has no more."};
  }

 private:
  struct Heap : DeviceBlock {
    std::unique_ptr<std::byte, decltype(&std::free)> memory{nullptr, &std::free};
    bool held = false;
  };
  static constexpr std::uint64_t kWhole = 4096;  // see CopyRange

  static Heap new_block(Bytes bytes) {
    Heap block;
    block.memory.reset(
        static_cast<std::byte*>(std::aligned_alloc(kWhole, round_up(bytes, kWhole).count)));
    block.address = block.memory.get();
    block.bytes = bytes.count;
    return block;
  }
  Allocation hold(Heap& block, Overbooking overbooking) {
    auto promise = budget_.try_reserve({block.bytes}, overbooking);
    if (!promise) {
      return {.pointer = nullptr,
              .block = nullptr,
              .short_by = Bytes{block.bytes} - budget_.available()};
    }
    promise->spend({block.bytes});
    block.held = block.accessible = true;
    return {.pointer = block.address, .block = &block, .short_by = {}};
  }
  void let_go(DeviceBlock& block) {
    if (!std::exchange(static_cast<Heap&>(block).held, false)) return;
    budget_.give_back({block.bytes});
  }

  MemoryBudget budget_;
  std::list<Heap> blocks_;  // kept, as addresses are for life
  mutable std::mutex mutex_;
  std::map<const std::byte*, Heap*> by_address_;
  std::vector<Heap*> freed_;
  std::vector<Bytes> expected_;
};

}  // namespace spillway::runtime
