// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"

namespace spillway::runtime {

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2 << 20;
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

Arena::Arena(MemoryBudget& budget, const ArenaOptions& options)
    : budget_(budget),
      map_(options.reservation, options.minimum),
      cached_heads_(kClassCount, nullptr),
      vacant_(kClassCount) {}

Bytes Arena::fresh_bytes(Bytes bytes) const {
  const std::uint32_t size_class = class_of(bytes.count);
  if (size_class >= kClassCount) return {page_bytes(bytes.count)};
  const Block* cached = cached_heads_[size_class];
  const std::uint64_t held = cached != nullptr ? cached->resident : 0;
  return saturating_sub({page_bytes(bytes.count)}, {held});
}

Block* Arena::carve(std::uint32_t size_class) {
  const std::uint64_t capacity = class_capacity(size_class);
  // Huge pages need ranges that start on one; smaller blocks only need a granule.
  const std::uint64_t alignment = capacity >= kHugePage ? kHugePage : PageMap::kGranule;
  std::byte* address = map_.carve(capacity, alignment);
  if (address == nullptr) return nullptr;
  Block& block = blocks_.emplace_back();
  block.address = address;
  block.capacity = capacity;
  block.size_class = size_class;
  map_.assign(block);
  return &block;
}

bool Arena::open_range(Block& block) {
  if (block.accessible) return true;
  if (fault_at("arena.map") ||
      ::mprotect(block.address, block.capacity, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  block.accessible = true;
  return true;
}

Block* Arena::allocate(Bytes bytes, MemoryReservation& reservation) {
  const std::uint32_t size_class = class_of(bytes.count);
  if (size_class >= kClassCount) return nullptr;
  Block* block = cached_heads_[size_class];
  if (block != nullptr) {
    cache_remove(*block);
  } else if (!vacant_[size_class].empty()) {
    block = vacant_[size_class].back();
    vacant_[size_class].pop_back();
  } else {
    block = carve(size_class);
    if (block == nullptr) return nullptr;
  }
  if (!open_range(*block)) {
    vacant_[size_class].push_back(block);
    return nullptr;
  }
  const std::uint64_t needed = page_bytes(bytes.count);
  if (needed > block->resident) {
    reservation.spend({needed - block->resident});
    block->resident = needed;
    allow_huge_pages(*block);
  }
  block->bytes = bytes.count;
  block->in_use = true;
  return block;
}

void Arena::free(Block& block) {
  SPILLWAY_CHECK(block.in_use, "block freed twice");
  block.in_use = false;
  block.bytes = 0;
  if (poison_ == Poison::kYes && block.accessible && block.resident != 0) {
    std::memset(block.address, kPoisonByte, block.resident);
  }
  if (block.resident == 0) {
    vacant_[block.size_class].push_back(&block);
  } else {
    cache_push(block);
  }
}

Bytes Arena::release_cached(Bytes bytes) {
  Bytes released{};
  while (released < bytes && oldest_ != nullptr) {
    Block& block = *oldest_;
    cache_remove(block);
    ::madvise(block.address, block.resident, MADV_DONTNEED);
    released += {block.resident};
    budget_.give_back({block.resident});
    block.resident = 0;
    vacant_[block.size_class].push_back(&block);
  }
  return released;
}

void Arena::drop_pages(Block& block) {
  set_access(block, false);
  ::madvise(block.address, block.resident, MADV_DONTNEED);
  budget_.give_back({block.resident});
  block.resident = 0;
}

Bytes Arena::restore_bytes(const Block& block) {
  return saturating_sub({page_bytes(block.bytes)}, {block.resident});
}

bool Arena::restore_pages(Block& block, MemoryReservation& reservation) {
  if (!open_range(block)) return false;
  const Bytes needed = restore_bytes(block);
  reservation.spend(needed);
  block.resident += needed.count;
  allow_huge_pages(block);
  return true;
}

// Only whole huge pages inside what is held: the kernel must not back the tail beyond it.
void Arena::allow_huge_pages(Block& block) {
  const std::uint64_t huge = block.resident / kHugePage * kHugePage;
  if (huge > block.huge) {
    ::madvise(block.address + block.huge, huge - block.huge, MADV_HUGEPAGE);
  } else if (huge < block.huge) {
    ::madvise(block.address + huge, block.huge - huge, MADV_NOHUGEPAGE);
  }
  block.huge = huge;
}

void Arena::set_access(Block& block, bool accessible) {
  // A refused change (too many mappings) leaves the range readable; the storage's own access flag
  // still stops framework code.
  if (::mprotect(block.address, block.capacity, accessible ? PROT_READ | PROT_WRITE : PROT_NONE) ==
      0) {
    block.accessible = accessible;
  }
}

void Arena::cache_push(Block& block) {
  Block*& head = cached_heads_[block.size_class];
  block.class_previous = nullptr;
  block.class_next = head;
  if (head != nullptr) head->class_previous = &block;
  head = &block;
  block.age_previous = newest_;
  block.age_next = nullptr;
  (newest_ != nullptr ? newest_->age_next : oldest_) = &block;
  newest_ = &block;
  cached_ += {block.resident};
}

void Arena::cache_remove(Block& block) {
  if (block.class_previous != nullptr) {
    block.class_previous->class_next = block.class_next;
  } else {
    cached_heads_[block.size_class] = block.class_next;
  }
  if (block.class_next != nullptr) block.class_next->class_previous = block.class_previous;
  (block.age_previous != nullptr ? block.age_previous->age_next : oldest_) = block.age_next;
  (block.age_next != nullptr ? block.age_next->age_previous : newest_) = block.age_previous;
  cached_ -= {block.resident};
}

}  // namespace spillway::runtime
