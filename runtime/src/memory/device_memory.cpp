// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/device_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace spillway::runtime {

namespace {

// Below this much the cache of freed blocks is not worth trimming: a program of that size never
// comes near a budget, and every trim is a page fault later.
constexpr Bytes kAlwaysCached = kMiB * 64;

// Objects hold the list of those freed in their own memory.
std::byte* next_freed(const std::byte* object) {
  std::byte* next = nullptr;
  std::memcpy(&next, object, sizeof next);
  return next;
}
void set_next_freed(std::byte* object, std::byte* next) { std::memcpy(object, &next, sizeof next); }
Block* next_freed(const Block* block) { return block->next_freed; }
void set_next_freed(Block* block, Block* next) { block->next_freed = next; }

// Freed oldest first, so that allocations take what was freed last: it may still lie in a cache.
template <typename Freed>
Freed* oldest_first(Freed* newest) {
  Freed* oldest = nullptr;
  while (newest != nullptr) {
    Freed* const older = next_freed(newest);
    set_next_freed(newest, oldest);
    oldest = newest;
    newest = older;
  }
  return oldest;
}

}  // namespace

DeviceMemory::DeviceMemory(Bytes limit, const ArenaOptions& options)
    : budget_(limit), arena_(budget_, options) {}

void DeviceMemory::reset_peak() {
  budget_.reset_peak();
  peak_live_ = live();
}

// Freed blocks of other classes must not pile up: a program whose shapes change would hold the sum
// of all its peaks.
void DeviceMemory::trim_cache(Bytes wanted) {
  const auto slack =
      static_cast<std::uint64_t>(cache_slack_ * static_cast<double>(peak_live_.count));
  const Bytes soft_limit = std::max(peak_live_ + Bytes{slack}, kAlwaysCached);
  const Bytes excess = saturating_sub(budget_.used() + wanted, soft_limit);
  if (excess.count != 0) arena_.release_idle(excess);
}

void DeviceMemory::drop_empty_spans() {
  empty_spans_.clear();
  slabs_.remove_empty_spans(empty_spans_);
  for (Block* const span : empty_spans_) arena_.free_block(*span);
}

void DeviceMemory::release_idle() {
  drop_empty_spans();
  arena_.release_idle(budget_.used());
}

// Idle pages, and spans of small objects that have none where these are what was missing.
void DeviceMemory::give_back(Bytes bytes) {
  if (bytes.count == 0) return;
  const Bytes given = arena_.release_idle(bytes);
  if (given >= bytes || given + in_empty_spans() < bytes) return;
  drop_empty_spans();
  arena_.release_idle(bytes - given);
}

// A lowered limit takes effect on idle pages at once, on others when their users are done.
Bytes DeviceMemory::obey_limit() {
  give_back(saturating_sub(budget_.used(), budget_.limit()));
  return saturating_sub(budget_.used(), budget_.limit());
}

// Pages for a block that is in no list. Idle ones of others before fresh ones.
Allocation DeviceMemory::fill(Block& block, Bytes bytes, Overbooking overbooking) {
  arena_.gather(block, bytes);
  const Bytes fresh = Arena::missing(block, bytes);
  if (fresh.count != 0) trim_cache(fresh);
  // More than `fresh` where the limit was lowered below what is held.
  give_back(saturating_sub(budget_.used() + fresh, budget_.limit()));
  const Bytes short_by = saturating_sub(budget_.used() + fresh, budget_.limit());
  if (short_by.count != 0 && overbooking == Overbooking::kRefuse) {
    return {.pointer = nullptr, .block = nullptr, .short_by = short_by};
  }
  auto promise = budget_.try_reserve(fresh, Overbooking::kAllow);
  if (!arena_.open(block, bytes, *promise)) return {};
  peak_live_ = std::max(peak_live_, live());
  return {.pointer = block.address, .block = &block, .short_by = {}};
}

Allocation DeviceMemory::allocate_block(Bytes bytes, Overbooking overbooking, Colouring colouring) {
  Block* block = arena_.claim(bytes, colouring);
  if (block == nullptr) return {};
  const Allocation result = fill(*block, bytes, overbooking);
  if (result.pointer == nullptr) {
    arena_.give_up(*block);
    obey_limit();
  } else {
    block->intact = true;  // whatever is there is its user's
  }
  return result;
}

Allocation DeviceMemory::allocate(Bytes bytes, Overbooking overbooking) {
  if (small_ == SmallObjects::kBlocks || bytes.count > Slabs::kLargestObject) {
    return allocate_block(bytes, overbooking, Colouring::kYes);
  }
  void* object = slabs_.allocate(bytes.count);
  if (object == nullptr) {
    // Objects of a span begin at different lines as it is, and a page more is much of a small one.
    // Not tried in vain: that gives back what is idle.
    Bytes wanted{slabs_.span_bytes(bytes.count)};
    const bool fits = live() + wanted <= budget_.limit();
    if (!fits && overbooking == Overbooking::kRefuse) {
      wanted = {Slabs::least_span_bytes(bytes.count)};
    }
    const Allocation span = allocate_block(wanted, overbooking, Colouring::kNo);
    if (span.pointer == nullptr) return span;
    slabs_.add_span(as_block(*span.block), bytes.count);
    object = slabs_.allocate(bytes.count);
  }
  return {.pointer = static_cast<std::byte*>(object), .block = nullptr, .short_by = {}};
}

Allocation DeviceMemory::restore_apart(DeviceBlock& evicted, Overbooking overbooking) {
  Block& block = as_block(evicted);
  if (block.landing != nullptr) return {.pointer = block.address, .block = &block, .short_by = {}};
  if (block.intact) return restore(block, overbooking);
  arena_.recall(block);
  Block* const landing = arena_.claim_landing(block);
  if (landing == nullptr) return restore(block, overbooking);
  const Allocation result = fill(*landing, {block.bytes}, overbooking);
  if (result.pointer == nullptr) {
    arena_.give_up(*landing);
    obey_limit();
    return result;
  }
  block.landing = landing;
  return {.pointer = block.address, .block = &block, .short_by = {}};
}

Allocation DeviceMemory::restore(DeviceBlock& evicted, Overbooking overbooking) {
  Block& block = as_block(evicted);
  if (!arena_.land(block)) return {};
  arena_.recall(block);
  const Allocation result = fill(block, {block.bytes}, overbooking);
  if (result.pointer == nullptr) {
    arena_.linger(block);
    obey_limit();
  }
  return result;
}

CopyRange DeviceMemory::copy_range(const DeviceBlock& copied) const {
  const Block& block = as_block(copied);
  const Block& pages = block.holder();
  return {.begin = pages.address - pages.lead(), .bytes = {block.bytes + block.lead()}};
}

Bytes DeviceMemory::rounding(const DeviceBlock& held) const {
  const Block& block = as_block(held);
  return block.idle() ? Bytes{} : saturating_sub({block.resident}, {block.bytes});
}

std::string DeviceMemory::description() const {
  if (arena_.pool() != nullptr) return "page pool";
  const std::string& reason = PagePool::why_not();
  return "plain arena, since " + (reason.empty() ? "it was asked for" : reason);
}

MemoryRefusal DeviceMemory::refusal() const {
  const MappingCount& mappings = arena_.mappings();
  const PageMap& addresses = arena_.page_map();
  return {
      .by = "the kernel",
      .reason = fmt::format("Tensors have up to {} of the {} mappings that a process may have "
                            "(vm.max_map_count), and {} of {} of addresses (ulimit -v).",
                            mappings.bound(), mappings.allowed(), to_string(addresses.carved()),
                            to_string(addresses.reserved())),
      .remedy = "Raise vm.max_map_count, or the limit of ulimit -v, whichever is nearly used up."};
}

void DeviceMemory::free_later(std::byte* pointer) noexcept {
  Block* block = arena_.find(pointer);
  if (block->span == nullptr) {
    block->next_freed = freed_blocks_.load(std::memory_order_relaxed);
    while (
        !freed_blocks_.compare_exchange_weak(block->next_freed, block, std::memory_order_release)) {
    }
    return;
  }
  std::byte* next = freed_objects_.load(std::memory_order_relaxed);
  do {
    set_next_freed(pointer, next);
  } while (!freed_objects_.compare_exchange_weak(next, pointer, std::memory_order_release));
}

void DeviceMemory::take_freed(std::vector<DeviceBlock*>& records) {
  if (freed_objects_.load(std::memory_order_relaxed) != nullptr) {
    std::byte* object = oldest_first(freed_objects_.exchange(nullptr, std::memory_order_acquire));
    while (object != nullptr) {
      std::byte* const next = next_freed(object);
      Block* block = arena_.find(object);
      if (slabs_.free(*block, object)) arena_.free_block(*block);
      object = next;
    }
  }
  if (freed_blocks_.load(std::memory_order_relaxed) == nullptr) return;
  Block* block = oldest_first(freed_blocks_.exchange(nullptr, std::memory_order_acquire));
  while (block != nullptr) {
    Block* const next = next_freed(block);
    if (block->record != nullptr) {
      records.push_back(block);
    } else {
      arena_.free_block(*block);
    }
    block = next;
  }
}

}  // namespace spillway::runtime
