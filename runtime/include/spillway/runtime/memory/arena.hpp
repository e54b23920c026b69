// SPDX-License-Identifier: Apache-2.0
// Page-granular memory of the device tier where the device is the machine's own RAM.
//
// Blocks keep their addresses for life: evicting a block gives its pages back to the kernel and
// makes its range inaccessible, restoring it gets fresh pages at the same addresses. Freed blocks
// keep their pages in a cache (page faults are what stock training on a CPU loses most time to),
// and the cache is emptied, oldest first, when a reservation needs the bytes.
//
// Size classes are eight per power of two. A class rounds up addresses only; pages are held for
// what was asked for, rounded to a page.
//
// Every page held is paid for with a MemoryReservation of the arena's budget. Not thread-safe:
// guarded by the engine's lock, except `find`.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/block.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"
#include "spillway/runtime/memory/page_map.hpp"

namespace spillway::runtime {

/// Whether memory is overwritten with a pattern when it is freed, so that a use after free shows.
enum class Poison : bool { kNo, kYes };

struct ArenaOptions {
  Bytes reservation{std::uint64_t{8} << 40};  ///< address space; costs nothing until used
  Bytes minimum{std::uint64_t{8} << 30};
};

class Arena {
 public:
  Arena(MemoryBudget& budget, const ArenaOptions& options);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Pages that `allocate(bytes)` would take beyond those of a cached block: reserve these first.
  [[nodiscard]] Bytes fresh_bytes(Bytes bytes) const;

  /// A block of at least `bytes`, contents undefined. `reservation` must cover
  /// `fresh_bytes(bytes)`. Null if address space is used up or the kernel refuses the mapping;
  /// nothing is lost then.
  Block* allocate(Bytes bytes, MemoryReservation& reservation);

  /// Takes the block back. Its pages stay in the cache, or go if it has none.
  void free(Block& block);

  /// Gives pages of cached blocks back until `bytes` are returned or none is left. Returns how
  /// many.
  Bytes release_cached(Bytes bytes);

  /// Gives the block's pages back and makes its range inaccessible. The contents are gone.
  void drop_pages(Block& block);

  /// Bytes that `restore_pages` needs.
  [[nodiscard]] static Bytes restore_bytes(const Block& block);

  /// Pages again, accessible, contents zero. Paid for by `reservation`. False if the kernel
  /// refuses.
  [[nodiscard]] bool restore_pages(Block& block, MemoryReservation& reservation);

  /// Makes the range inaccessible or accessible while its pages stay.
  static void set_access(Block& block, bool accessible);

  void set_poison(Poison poison) { poison_ = poison; }

  [[nodiscard]] Block* find(const void* address) const { return map_.find(address); }
  [[nodiscard]] const PageMap& page_map() const { return map_; }
  [[nodiscard]] Bytes cached() const { return cached_; }
  [[nodiscard]] std::size_t block_count() const { return blocks_.size(); }

  /// Index of the smallest class that holds `bytes`, and the bytes of addresses of a class.
  static std::uint32_t class_of(std::uint64_t bytes);
  static std::uint64_t class_capacity(std::uint32_t size_class);

 private:
  Block* carve(std::uint32_t size_class);
  bool open_range(Block& block);
  static void allow_huge_pages(Block& block);
  void cache_push(Block& block);
  void cache_remove(Block& block);

  MemoryBudget& budget_;
  PageMap map_;
  std::deque<Block> blocks_;                 // addresses of blocks are stable and never given back
  std::vector<Block*> cached_heads_;         // per class, most recently freed first, pages held
  std::vector<std::vector<Block*>> vacant_;  // per class, no pages held
  Block* oldest_ = nullptr;
  Block* newest_ = nullptr;
  Bytes cached_{};
  Poison poison_ = Poison::kNo;
};

}  // namespace spillway::runtime
