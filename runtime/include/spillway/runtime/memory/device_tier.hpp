// SPDX-License-Identifier: Apache-2.0
// The memory of the device tier, as the mover, the engine and the statistics see it. What the bytes
// lie on (pages of the kernel, memory of a card) and how it comes and goes is the implementation's
// own; DeviceMemory is the one over the machine's RAM.
//
//     allocate -> in use -- seal ----> being copied -- evict --> away
//                    ^---- unseal ----------'                      |
//                    '------- restore, or restore_apart and land --'
//
// A block keeps its addresses for life, whether its bytes are there or not. `intact` says that they
// are: the room of a block that is away is anyone's, but until others took it the bytes can be had
// again without a copy.
//
// `allocate` never evicts: it takes what the budget allows, else says how many bytes are short. The
// caller makes room and asks again. Freed memory is handed over through a lock-free list, since
// frees come from any thread, with any lock held. Not thread-safe except where a function says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/device_block.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"

namespace spillway::runtime {

/// Memory, or how much room is missing for it.
struct Allocation {
  std::byte* pointer = nullptr;
  DeviceBlock* block = nullptr;  ///< set if the memory is a block of its own
  Bytes short_by{};      ///< bytes to free first; zero with a null pointer: the system refused
  bool refused = false;  ///< the system refused, and may grant it once `short_by` was freed
  bool opened = false;   ///< memory was put behind the block for it, or was kept ready (`expect`)
};

/// Who refuses memory that the budget allows, a sentence on what may be short there, and one on
/// what helps.
struct MemoryRefusal {
  std::string by;
  std::string reason{};
  std::string remedy{};
};

/// How small allocations are served.
enum class SmallObjects : std::uint8_t {
  kSlabs,  ///< several in a block, which never moves
  kBlocks  ///< every allocation is a block that can be evicted and poisoned (fuzz)
};

/// Whether memory is overwritten with a pattern when it is freed or evicted, so that a use
/// afterwards shows.
enum class Poison : bool { kNo, kYes };

/// The range that copies of a block fill, or are taken from. Transfers to files move whole pages
/// that begin on one: so the range may begin before the bytes of the user, and the block has the
/// rest of the page that it ends on.
struct CopyRange {
  std::byte* begin = nullptr;
  Bytes bytes{};
};

class StreamUses;

class DeviceTier {
 public:
  virtual ~DeviceTier() = default;

  virtual Allocation allocate(Bytes bytes, Overbooking overbooking) = 0;

  /// Blocks of such room (`Allocation::opened`) will be allocated soon, in that order, and no
  /// others that were expected before: makes those ready that are not yet, as far as there is room
  /// without evicting.
  virtual void expect(std::span<const Bytes> /*blocks*/) {}

  /// Queues memory of this tier for freeing. Any thread, no lock, never blocks, never throws.
  virtual void free_later(std::byte* pointer) noexcept = 0;
  /// Frees what was queued, except that blocks with a record are appended to `records` for the
  /// caller, who owes a `free_block` for each.
  virtual void take_freed(std::vector<DeviceBlock*>& records) = 0;
  virtual void free_block(DeviceBlock& block) = 0;

  /// A copy of the block begins, and nobody may write it: until `unseal` or `evict` a write faults,
  /// where the tier can make it.
  virtual void seal(DeviceBlock& block) = 0;
  /// It is in use after all. False if the system refuses: the block stays sealed then.
  [[nodiscard]] virtual bool unseal(DeviceBlock& block) = 0;
  /// Makes the block inaccessible, where the tier can. Its room is anyone's.
  virtual void evict(DeviceBlock& block) = 0;
  /// Room for an evicted block, accessible at once; short_by as above, pointer set on success. The
  /// bytes are there again without a copy if `block.intact`; else who makes them sets that.
  virtual Allocation restore(DeviceBlock& block, Overbooking overbooking) = 0;
  /// The same for bytes that are copied in: they belong into `copy_range`, and `block` stays
  /// inaccessible until `land`, where the tier can make it.
  virtual Allocation restore_apart(DeviceBlock& block, Overbooking overbooking) = 0;
  /// The same ahead of need: the room is the block's, but what lies behind it may come later,
  /// before the copy. Where it cannot be had then, the copy says so.
  virtual Allocation restore_ahead(DeviceBlock& block, Overbooking overbooking) {
    return restore_apart(block, overbooking);
  }
  /// All bytes are in place. False if the system refuses: they are gone then.
  [[nodiscard]] virtual bool land(DeviceBlock& block) = 0;
  /// They will never be.
  virtual void abandon_landing(DeviceBlock& block) = 0;

  // Where memory is dear to map, a user whose bytes are needed no more changes its block rather
  // than take the memory from behind it: others have the block with its memory, as if it was freed.
  /// Addresses without memory for as many bytes as `like` has, away; null: there are none, or this
  /// tier has no use of them.
  [[nodiscard]] virtual DeviceBlock* spare(const DeviceBlock& /*like*/) { return nullptr; }
  /// A freed block with its memory for as many bytes as `like` has, accessible, whose bytes are
  /// anyone's; null: there is none. On a device its earlier uses may go on.
  [[nodiscard]] virtual DeviceBlock* take_freed_like(const DeviceBlock& /*like*/) {
    return nullptr;
  }

  /// The place of the copied range changes when the block is restored, and its length never. Any
  /// thread while a copy of the block is under way.
  [[nodiscard]] virtual CopyRange copy_range(const DeviceBlock& block) const = 0;
  /// Where its user's bytes are in that range. The same terms.
  [[nodiscard]] virtual const std::byte* bytes_in_copy(const DeviceBlock& block) const = 0;
  /// Bytes of room that the block has now, also those that others may take.
  [[nodiscard]] virtual Bytes resident(const DeviceBlock& block) const = 0;
  /// Of them, those that nobody else may have.
  [[nodiscard]] virtual Bytes held(const DeviceBlock& block) const = 0;
  /// The room that it needs for its user's bytes.
  [[nodiscard]] virtual Bytes needed(const DeviceBlock& block) const = 0;
  /// Held, but not asked for.
  [[nodiscard]] virtual Bytes rounding(const DeviceBlock& block) const = 0;
  /// The same of small objects together.
  [[nodiscard]] virtual Bytes small_rounding() const = 0;

  /// Where a device uses memory beside the host: room that nobody has any more, and that the device
  /// has not let go of yet. It comes by itself: `settle`, called now and then, finds that out, and
  /// says whether any did.
  [[nodiscard]] virtual Bytes coming() const { return {}; }
  virtual bool settle() { return false; }
  /// Room that no storage has and nobody can have now: all that is `coming`, and what freed blocks
  /// hold that the device may still use, or that is kept for allocations to come.
  [[nodiscard]] virtual Bytes unavailable() { return {}; }
  /// Set where streams of a device use the memory. Null: the processor does, when it is told to.
  [[nodiscard]] virtual StreamUses* stream_uses() { return nullptr; }

  /// The process is about to fork, and shares with the child what it holds.
  virtual void before_fork() = 0;

  virtual void set_limit(Bytes limit) = 0;
  /// Gives idle room above the limit back. Returns how far what is held exceeds it still: room that
  /// is `coming` too.
  virtual Bytes obey_limit() = 0;
  virtual void set_small_objects(SmallObjects small) = 0;
  virtual void set_poison(Poison poison) = 0;
  /// How far freed blocks may stay cached above the most that was ever live, as a share of it.
  virtual void set_cache_slack(double share) = 0;
  /// Gives all that nobody needs back to the system.
  virtual void release_idle() = 0;

  /// Its limit may be read by any thread.
  [[nodiscard]] virtual const MemoryBudget& budget() const = 0;
  /// Bytes held for users.
  [[nodiscard]] virtual Bytes live() const = 0;
  [[nodiscard]] virtual Bytes peak_live() const = 0;
  virtual void reset_peak() = 0;
  /// The block `address` lies in, or null. Any thread.
  [[nodiscard]] virtual DeviceBlock* find(const void* address) const = 0;

  /// How long calls that map memory held up the program, where they are dear. Any thread.
  [[nodiscard]] virtual std::int64_t mapping_ns() const { return 0; }
  /// Where memory comes from, for statistics (docs/statistics.md, `pages`).
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual MemoryRefusal refusal() const = 0;
};

}  // namespace spillway::runtime
