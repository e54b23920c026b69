// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/arena.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/memory_probe.hpp"

namespace spillway::runtime {

namespace {

// Smallest class: one granule of the page map, since a block owns whole granules of addresses.
constexpr int kSmallestClassBits = 16;
constexpr std::uint32_t kStepsPerDoubling = 8;
constexpr std::uint32_t kClassCount = (44 - kSmallestClassBits) * kStepsPerDoubling;
// A signalling pattern: NaN as float, double and bfloat16, and absurd as an index.
constexpr int kPoisonByte = 0xff;

std::uint64_t page_bytes(std::uint64_t bytes) { return round_up({bytes}, kPage).count; }

}  // namespace

std::uint32_t Arena::class_of(std::uint64_t bytes) {
  if (bytes <= std::uint64_t{1} << kSmallestClassBits) return 0;
  const int bits = 63 - std::countl_zero(bytes - 1);  // 2^bits < bytes <= 2^(bits+1)
  const std::uint64_t base = std::uint64_t{1} << bits;
  const std::uint64_t step = base / kStepsPerDoubling;
  const auto within = static_cast<std::uint32_t>((bytes - base + step - 1) / step);
  return static_cast<std::uint32_t>(bits - kSmallestClassBits) * kStepsPerDoubling + within;
}

std::uint64_t Arena::class_capacity(std::uint32_t size_class) {
  const std::uint64_t base = std::uint64_t{1}
                             << (kSmallestClassBits + size_class / kStepsPerDoubling);
  return base + base / kStepsPerDoubling * (size_class % kStepsPerDoubling);
}

std::uint64_t Arena::pages_of(const Block& block, Bytes bytes) {
  return page_bytes(block.colour() + bytes.count);
}

Arena::Arena(MemoryBudget& budget, const ArenaOptions& options)
    : budget_(budget),
      map_(options.reservation, options.minimum),
      mappings_(options.mappings),
      vacant_(kClassCount),
      idle_(kClassCount),
      lands_(options.moves == PageMoves::kWherePossible && PagePool::kernel_moves_pages()),
      colouring_(options.colouring) {
  if (options.moves == PageMoves::kWherePossible && PagePool::why_not().empty()) {
    pool_.emplace(mappings_);
  }
}

// ---- Claim, gather, open ------------------------------------------------------------------------

Block* Arena::carve(std::uint32_t size_class) {
  const std::uint64_t capacity = class_capacity(size_class);
  // Huge pages need ranges that start on one; smaller blocks only need a granule.
  const std::uint64_t alignment = capacity >= kChunk ? kChunk : PageMap::kGranule;
  std::byte* address = map_.carve(capacity, alignment);
  if (address == nullptr) return nullptr;
  Block& block = blocks_.emplace_back();
  block.base = address;
  block.given_colour = colours_.next(capacity);
  block.capacity = capacity;
  block.size_class = size_class;
  mappings_.add(address == carved_to_);
  carved_to_ = address + capacity;
  map_.assign(block);
  return &block;
}

std::uint32_t Arena::coloured_class_of(std::uint64_t bytes) {
  const std::uint32_t size_class = class_of(bytes + BlockColours::room(bytes));
  return class_of(bytes + BlockColours::room(class_capacity(size_class)));
}

Block* Arena::claim(Bytes bytes, Colouring colouring) {
  if (class_of(bytes.count) >= kClassCount) return nullptr;  // bytes for colours might overflow
  const bool coloured = colouring == Colouring::kYes && colouring_ == Colouring::kYes;
  const std::uint32_t size_class =
      coloured ? coloured_class_of(bytes.count) : class_of(bytes.count);
  if (size_class >= kClassCount) return nullptr;
  Block* block = take(size_class);
  if (block != nullptr) block->address = block->base + (coloured ? block->given_colour : 0);
  return block;
}

Block* Arena::take(std::uint32_t size_class) {
  Block* const block = idle_.take_cached(size_class);
  return block != nullptr ? block : take_vacant(size_class);
}

Block* Arena::take_vacant(std::uint32_t size_class) {
  if (vacant_[size_class].empty()) return carve(size_class);
  Block* block = vacant_[size_class].back();
  vacant_[size_class].pop_back();
  return block;
}

void Arena::gather(Block& block, Bytes bytes) {
  if (!pool_) return;
  const std::uint64_t wanted = pages_of(block, bytes) / kChunk;
  while (block.chunks() < wanted) {
    Block* const donor = idle_.oldest_with_chunks();
    if (donor == nullptr) return;
    drop_tail(block);
    drop_tail(*donor);
    donor->intact = false;
    const std::uint64_t moved = pool_->move(*donor, block, wanted - block.chunks());
    donor->list->shrink({moved * kChunk});
    block.accessible = block.sealed = false;
    block.huge = std::max(block.huge, block.resident);
    if (donor->resident == 0) {
      renew_if_crowded(*donor);
      idle_.remove(*donor);
      if (!donor->in_use) vacant_[donor->size_class].push_back(donor);
    }
    if (moved == 0) return;
  }
}

Bytes Arena::missing(const Block& block, Bytes bytes) {
  return saturating_sub({pages_of(block, bytes)}, {block.resident});
}

bool Arena::open(Block& block, Bytes bytes, MemoryReservation& reservation) {
  if (!open_range(block)) return false;
  if (!block.intact) poison(block);
  const Bytes fresh = missing(block, bytes);
  if (fresh.count != 0) {
    reservation.spend(fresh);
    block.resident += fresh.count;
    block.intact = false;
  }
  set_huge_pages(block);
  block.bytes = bytes.count;
  block.in_use = true;
  block.forks = forks_;
  return true;
}

void Arena::give_up(Block& block) {
  if (block.resident == 0) {
    vacant_[block.size_class].push_back(&block);
  } else {
    idle_.cache(block);
  }
}

bool Arena::open_range(Block& block) {
  if (block.accessible && !block.sealed) return true;
  if (fault_at("arena.map") ||
      ::mprotect(block.base, block.capacity, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  block.accessible = true;
  block.sealed = false;
  return true;
}

// Only whole huge pages inside what is held: the kernel must not back the tail beyond it.
void Arena::set_huge_pages(Block& block) {
  const std::uint64_t huge = block.chunks() * kChunk;
  if (block.capacity < kChunk || huge == block.huge) return;
  if (huge > block.huge) {
    ::madvise(block.base + block.huge, huge - block.huge, MADV_HUGEPAGE);
  } else {
    ::madvise(block.base + huge, block.huge - huge, MADV_NOHUGEPAGE);
  }
  block.huge = huge;
  mappings_.cut(block, huge / kChunk);
}

// Without pages there is nothing that cuts are needed for.
void Arena::renew_if_crowded(Block& block) {
  if (block.cuts.empty() || !mappings_.crowded()) return;
  if (!PageMap::renew(block.base, block.capacity)) return;
  mappings_.clear_cuts(block);
  block.accessible = block.sealed = false;
  block.huge = 0;
}

// ---- Idle blocks --------------------------------------------------------------------------------

void Arena::free_block(Block& block) {
  SPILLWAY_CHECK(block.in_use, "block freed twice");
  abandon_landing(block);
  if (block.idle()) idle_.remove(block);  // it was evicted
  block.in_use = false;
  block.intact = false;
  block.bytes = 0;
  if (block.accessible && !block.sealed) poison(block);
  if (was_shared(block)) release_pages(block);
  give_up(block);
}

void Arena::before_fork() {
  release_idle(budget_.used());
  ++forks_;
}

// A write that came while pages are poisoned would be lost without a fault: those of a block that
// becomes inaccessible are poisoned when someone gets them (`open`).
void Arena::evict(Block& block) {
  if (poison_ == Poison::kYes) block.intact = false;
  if (mappings_.may_protect()) protect(block);
  if (block.accessible && !block.sealed) poison(block);
  if (was_shared(block)) release_pages(block);
  linger(block);
}

void Arena::linger(Block& block) {
  if (block.resident != 0) idle_.linger(block);
}

void Arena::recall(Block& block) {
  if (block.idle()) idle_.remove(block);
}

Bytes Arena::release_idle(Bytes bytes) {
  Bytes released{};
  while (released < bytes) {
    Block* const block = idle_.oldest();
    if (block == nullptr) break;
    released += {block->resident};
    idle_.remove(*block);
    release_pages(*block);
    if (!block->in_use) vacant_[block->size_class].push_back(block);
  }
  return released;
}

void Arena::release_pages(Block& block) {
  if (block.resident == 0) return;
  block.intact = false;
  to_kernel(block.base, block.resident);
  budget_.give_back({block.resident});
  block.resident = 0;
  renew_if_crowded(block);
}

// Locked memory (mlockall) can't be given back, and an account of pages that stayed would be false:
// so the reservation is unlocked. The lock also got pages for all that was accessible.
void Arena::to_kernel(std::byte* pages, std::uint64_t bytes) {
  if (::madvise(pages, bytes, MADV_DONTNEED) == 0) return;
  map_.unlock();
  for (const Block& block : blocks_) {
    ::madvise(block.base + block.resident, block.capacity - block.resident, MADV_DONTNEED);
  }
  if (::madvise(pages, bytes, MADV_DONTNEED) == 0) return;
  warn_once(
      fmt::format("the kernel does not take back {} of memory ({}): this process holds more "
                  "than its budget",
                  to_string(Bytes{bytes}), std::strerror(errno)));
}

// The block is in a list or in none.
void Arena::drop_tail(Block& block) {
  const std::uint64_t tail = block.resident % kChunk;
  if (tail == 0) return;
  block.resident -= tail;
  to_kernel(block.base + block.resident, tail);
  budget_.give_back({tail});
  if (block.list != nullptr) block.list->shrink({tail});
}

// A refusal (the program itself has too many mappings) leaves the range, or a part of it,
// accessible; the storage's own access flag still stops framework code.
void Arena::protect(Block& block) {
  block.accessible = ::mprotect(block.base, block.capacity, PROT_NONE) != 0;
  block.sealed = block.accessible;
}

// Also after a refusal: a part of the range may be sealed.
void Arena::seal(Block& block) {
  if (!mappings_.may_protect()) return;
  ::mprotect(block.base, block.capacity, PROT_READ);
  block.sealed = true;
}

bool Arena::unseal(Block& block) { return !block.sealed || open_range(block); }

void Arena::poison(Block& block) const {
  if (poison_ == Poison::kYes && block.resident != 0) {
    std::memset(block.base, kPoisonByte, block.resident);
  }
}

}  // namespace spillway::runtime
