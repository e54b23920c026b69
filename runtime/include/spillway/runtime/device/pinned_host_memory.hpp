// SPDX-License-Identifier: Apache-2.0
// The host tier below a card: page-locked memory, within a budget of its own.
//
//     slab     |== copy ==|-- hole --|==== copy ====|------------|      256 MiB, page-locked once
//     budget   counts whole slabs: page-locked memory is the machine's loss whether used or not
//
// Page-locking costs some 0.4 s per GiB, so slabs are made when first needed and kept. What is
// larger than a slab gets one of its own. Where page-locking is refused, memory is had all the
// same, and copies of it hold the program up: `refusal` says so once, in words.
//
// A copy may be read by the device after the host has forgotten it: `free_after` keeps the memory
// from others until the fence has passed, as `settle` finds out.
// Errors: no room is an answer. Not thread-safe: guarded by its owner's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"
#include "spillway/runtime/transfer/extent_allocator.hpp"

namespace spillway::runtime {

class PinnedHostMemory {
 public:
  static constexpr Bytes kSlab = kMiB * 256;

  PinnedHostMemory(StreamClock& clock, Bytes limit, Bytes slab = kSlab);
  /// Waits for what the device may still read.
  ~PinnedHostMemory();
  PinnedHostMemory(const PinnedHostMemory&) = delete;
  PinnedHostMemory& operator=(const PinnedHostMemory&) = delete;

  /// Memory for a copy, on a page; null if the budget has no room for it, or the machine no memory.
  [[nodiscard]] std::byte* allocate(Bytes bytes);
  /// Nothing of the device's reads or writes it any more. `bytes` as when it was allocated.
  void free(std::byte* memory, Bytes bytes);
  /// The same once the fence has passed.
  void free_after(std::byte* memory, Bytes bytes, const Fence& fence);
  /// Makes memory whose fence has passed free.
  void settle();

  [[nodiscard]] const MemoryBudget& budget() const { return budget_; }
  /// In copies, with what waits for its fence.
  [[nodiscard]] Bytes used() const { return used_; }
  /// Why some of the memory is not page-locked, for people; empty if all is.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  struct Slab {
    Bytes bytes{};
    bool locked = false;
    ExtentAllocator extents;
  };
  struct Waiting {
    std::byte* memory;
    Bytes bytes;
    Fence fence;
  };

  std::byte* take(std::byte* base, Slab& slab, Bytes bytes);
  std::byte* add_slab(Bytes bytes);

  StreamClock& clock_;
  const Bytes slab_bytes_;
  MemoryBudget budget_;
  std::map<std::byte*, Slab> slabs_;  // by first address
  std::deque<Waiting> waiting_;
  Bytes used_{};
  std::string refusal_;
};

}  // namespace spillway::runtime
