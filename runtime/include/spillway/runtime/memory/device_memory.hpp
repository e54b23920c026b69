// SPDX-License-Identifier: Apache-2.0
// The device tier on a machine whose device is its own RAM: an arena for storages, slabs for small
// objects, one budget over both.
//
// `allocate` never evicts: it takes what the budget and the cache of freed blocks allow and
// otherwise says how many bytes are short. The caller makes room and asks again. Freed memory is
// handed over through a lock-free list, since frees come from any thread, with any lock held.
// Not thread-safe except where a function says so.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/arena.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"
#include "spillway/runtime/memory/slabs.hpp"

namespace spillway::runtime {

/// Memory, or how much room is missing for it.
struct Allocation {
  std::byte* pointer = nullptr;
  Block* block = nullptr;  ///< set if the memory is a block of its own
  Bytes short_by{};        ///< bytes to free first; zero with a null pointer: the kernel refused
};

/// How small allocations are served.
enum class SmallObjects : std::uint8_t {
  kSlabs,  ///< up to Slabs::kLargestObject from slabs: never moved
  kBlocks  ///< every allocation is a block that can be evicted and poisoned (fuzz)
};

class DeviceMemory {
 public:
  DeviceMemory(Bytes limit, const ArenaOptions& options);

  Allocation allocate(Bytes bytes, Overbooking overbooking);

  /// Queues memory of this tier for freeing. Any thread, no lock, never blocks, never throws.
  void free_later(std::byte* pointer) noexcept;

  /// Frees what was queued, except that blocks with a record are appended to `records` for the
  /// caller, who owes a `free_block` for each.
  void take_freed(std::vector<Block*>& records);
  void free_block(Block& block) { arena_.free(block); }

  /// Makes the block's range inaccessible. Its pages are counted as lingering until others take
  /// them.
  void evict(Block& block) { arena_.evict(block); }
  /// Pages for an evicted block, accessible at once; short_by as above, pointer set on success. The
  /// bytes are there again without a copy if `block.intact`; else who makes them sets that.
  Allocation restore(Block& block, Overbooking overbooking);
  /// The same for bytes that are copied in: they belong into the pages of `block.holder()`, at the
  /// same offsets, and `block` stays inaccessible until `land`, where it can (see Arena).
  Allocation restore_apart(Block& block, Overbooking overbooking);
  /// All bytes are in place. False if the kernel refuses: they are gone then.
  [[nodiscard]] bool land(Block& block) { return arena_.land(block); }
  /// They will never be.
  void abandon_landing(Block& block) { arena_.abandon_landing(block); }

  /// See Arena::seal.
  void seal(Block& block) { arena_.seal(block); }
  [[nodiscard]] static bool unseal(Block& block) { return Arena::unseal(block); }

  /// See Arena::before_fork.
  void before_fork() { arena_.before_fork(); }

  void set_limit(Bytes limit) { budget_.set_limit(limit); }
  void set_small_objects(SmallObjects small) { small_ = small; }
  void set_poison(Poison poison) { arena_.set_poison(poison); }
  /// How far freed blocks may stay cached above the most that was ever live, as a share of it.
  void set_cache_slack(double share) { cache_slack_ = share; }
  /// Gives all pages that nobody needs back to the kernel.
  void release_idle() { arena_.release_idle(budget_.used()); }

  [[nodiscard]] const MemoryBudget& budget() const { return budget_; }
  [[nodiscard]] Bytes live() const { return budget_.used() - cached() - lingering(); }
  [[nodiscard]] Bytes peak_live() const { return peak_live_; }
  void reset_peak();
  /// Held for small objects, but not asked for.
  [[nodiscard]] Bytes slab_rounding() const { return slabs_.unasked(); }
  [[nodiscard]] Bytes cached() const { return arena_.cached(); }
  [[nodiscard]] Bytes lingering() const { return arena_.lingering(); }
  [[nodiscard]] const Arena& arena() const { return arena_; }
  /// The block `address` lies in, or null. Any thread.
  [[nodiscard]] Block* find(const void* address) const { return arena_.find(address); }

 private:
  Allocation allocate_block(Bytes bytes, Overbooking overbooking, Colouring colouring);
  void obey_limit();
  Allocation fill(Block& block, Bytes bytes, Overbooking overbooking);
  void trim_cache(Bytes wanted);

  MemoryBudget budget_;
  Arena arena_;
  Slabs slabs_;
  SmallObjects small_ = SmallObjects::kSlabs;
  double cache_slack_ = 0.125;
  Bytes peak_live_{};
  std::atomic<Block*> freed_blocks_{nullptr};
  std::atomic<std::byte*> freed_objects_{nullptr};
};

}  // namespace spillway::runtime
