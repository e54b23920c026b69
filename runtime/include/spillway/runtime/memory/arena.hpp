// SPDX-License-Identifier: Apache-2.0
// Page-granular memory of the device tier where the device is the machine's own RAM.
//
// Blocks keep their addresses for life: evicting a block makes its range inaccessible, restoring it
// puts pages behind the same addresses. Pages that nobody needs stay where they are, and are taken
// from there when others need them: page faults are what stock training on a CPU loses most time
// to.
//
//     claim    a block of addresses: a cached one with its pages, else one without
//     gather   chunks of pages from blocks that do not need them: cached ones, oldest first, then
//              evicted ones
//     open     the rest from the kernel, paid for with a reservation; the range is made accessible
//
// An evicted block whose bytes are copied in gets its pages by way of another one, its *landing*:
//
//     landing   |== pages, bytes are copied in ==|        only the copy knows these addresses
//                  land |  mremap, when all bytes are there
//     block     |-- inaccessible until then -----|
//
// So whoever still uses the block's addresses meets a fault or its bytes, never half of a copy over
// what the pages held before. Where pages can't be moved at all, or mappings are short, the bytes
// are copied in place, and there a stale pointer does meet that.
//
// Where pages can't be moved between blocks (see PagePool) `gather` does nothing: pages of other
// blocks go back to the kernel when a reservation needs the bytes, and fresh ones come.
//
// Size classes are eight per power of two. A class rounds up addresses only; pages are held for
// what was asked for, rounded to a page.
//
// Every page held is paid for with a MemoryReservation of the arena's budget. Not thread-safe:
// guarded by the engine's lock, except `find`.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/block.hpp"
#include "spillway/runtime/memory/block_colours.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "spillway/runtime/memory/idle_blocks.hpp"
#include "spillway/runtime/memory/mapping_count.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"
#include "spillway/runtime/memory/page_map.hpp"
#include "spillway/runtime/memory/page_pool.hpp"

namespace spillway::runtime {

/// Whether pages move between blocks.
enum class PageMoves : std::uint8_t {
  kWherePossible,
  kNever,  ///< every page comes from the kernel and goes back there
};

struct ArenaOptions {
  Bytes reservation{std::uint64_t{8} << 40};  ///< address space; costs nothing until used
  Bytes minimum{std::uint64_t{8} << 30};
  PageMoves moves = PageMoves::kWherePossible;
  Colouring colouring = Colouring::kYes;
  /// Mappings that the process may have, see MappingCount; 0: as many as the kernel says.
  std::uint64_t mappings = 0;
};

class Arena {
 public:
  Arena(MemoryBudget& budget, const ArenaOptions& options);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A block for `bytes`, in no list, with whatever pages it still has. Null if address space is
  /// used up. The caller opens it or gives it up. Colours need the options' consent, too.
  Block* claim(Bytes bytes, Colouring colouring = Colouring::kYes);

  /// Moves chunks from idle blocks into `block`, until it holds those of `bytes` or there are none.
  void gather(Block& block, Bytes bytes);

  /// Pages that `block` lacks for `bytes`: to be reserved before `open`.
  [[nodiscard]] static Bytes missing(const Block& block, Bytes bytes);

  /// Gets what is missing, and makes the block accessible and in use by `bytes`. Pages that were
  /// not there before have undefined contents: the block is not intact then. False if the kernel
  /// refuses; nothing has changed then.
  [[nodiscard]] bool open(Block& block, Bytes bytes, MemoryReservation& reservation);

  /// A claimed block is not opened after all.
  void give_up(Block& block);

  /// Takes a block that is in use back. Its pages stay in the cache, or go if it has none.
  void free_block(Block& block);

  /// Gives pages of idle blocks back to the kernel until `bytes` are returned or none is left:
  /// those of freed blocks first. Returns how many.
  Bytes release_idle(Bytes bytes);

  /// The process is about to fork. Idle pages go: the child needs none of them, and a page that it
  /// shares costs the parent a copy at the first write and a huge page besides. For the same reason
  /// pages that are held now go back to the kernel, and not to other users, when they become idle.
  void before_fork();

  /// A copy of the block begins, and nobody may write it: until `unseal` or `evict` a write faults.
  /// Does nothing where mappings are short (see MappingCount).
  void seal(Block& block);
  /// It is in use after all. False if the kernel refuses, for which the program must have too many
  /// mappings: the block stays read-only then.
  [[nodiscard]] static bool unseal(Block& block);

  /// Makes the block's range inaccessible, unless mappings are short (see MappingCount): then what
  /// keeps users out is the framework's own flag alone. Its pages are anyone's.
  void evict(Block& block);

  /// An evicted block is wanted again: until `open` or `linger` nobody takes its pages. Whether
  /// they still hold its bytes is `block.intact`.
  void recall(Block& block);
  /// It is not opened after all.
  void linger(Block& block);

  /// Bytes will be copied into a recalled block: the block that is to get the pages in its place,
  /// with what pages it had. It is gathered, opened or given up as any other. Null if they have to
  /// be copied in place.
  Block* claim_landing(Block& block);
  /// Puts the pages of the block's landing, if it has one, behind its own addresses, accessible.
  /// False if the kernel refuses: the pages and bytes are gone then.
  [[nodiscard]] bool land(Block& block);
  /// The bytes did not come: the pages of its landing, if it has one, are anyone's.
  void abandon_landing(Block& block);

  void set_poison(Poison poison) { poison_ = poison; }

  [[nodiscard]] Block* find(const void* address) const { return map_.find(address); }
  [[nodiscard]] const PageMap& page_map() const { return map_; }
  /// Pages of freed blocks.
  [[nodiscard]] Bytes cached() const { return idle_.cached(); }
  /// Pages of evicted blocks, not yet taken by others.
  [[nodiscard]] Bytes lingering() const { return idle_.lingering(); }
  [[nodiscard]] std::size_t block_count() const { return blocks_.size(); }
  [[nodiscard]] const MappingCount& mappings() const { return mappings_; }
  /// Null where pages are not moved.
  [[nodiscard]] const PagePool* pool() const { return pool_ ? &*pool_ : nullptr; }

  /// Index of the smallest class that holds `bytes`, and the bytes of addresses of a class.
  static std::uint32_t class_of(std::uint64_t bytes);
  static std::uint64_t class_capacity(std::uint32_t size_class);
  /// Bytes of pages held for `bytes` in that block.
  static std::uint64_t pages_of(const Block& block, Bytes bytes);

 private:
  /// The smallest class that holds `bytes` at each of its colours.
  static std::uint32_t coloured_class_of(std::uint64_t bytes);
  Block* take(std::uint32_t size_class);
  Block* take_vacant(std::uint32_t size_class);
  Block* carve(std::uint32_t size_class);
  static bool open_range(Block& block);
  static void protect(Block& block);
  void poison(Block& block) const;
  void set_huge_pages(Block& block);
  bool carry(Block& from, Block& to);
  void to_kernel(std::byte* pages, std::uint64_t bytes);
  void renew_if_crowded(Block& block);
  void drop_tail(Block& block);
  [[nodiscard]] bool was_shared(const Block& block) const { return block.forks != forks_; }
  void release_pages(Block& block);

  MemoryBudget& budget_;
  PageMap map_;
  MappingCount mappings_;
  std::optional<PagePool> pool_;
  const std::byte* carved_to_ = nullptr;     // end of the last block
  std::deque<Block> blocks_;                 // addresses of blocks are stable and never given back
  std::vector<std::vector<Block*>> vacant_;  // per class, no pages held
  IdleBlocks idle_;
  std::uint32_t forks_ = 0;
  bool lands_;
  Colouring colouring_;
  BlockColours colours_;
  Poison poison_ = Poison::kNo;
};

}  // namespace spillway::runtime
