// SPDX-License-Identifier: Apache-2.0
// The host tier below a card: page-locked memory, within a budget of its own.
//
//     slab     |== copy ==|-- hole --|==== copy ====|------------|      256 MiB, page-locked once
//     budget   counts whole slabs: page-locked memory is the machine's loss whether used or not
//
// Page-locking costs some 0.4 s per GiB, so slabs are made when first needed and kept. What is
// larger than a slab gets one of its own. Where page-locking is refused, memory is had all the
// same, and copies of it hold the program up: `refusal` says so once, in words. A forked child has
// none of it.
//
// A copy may be read by the device after the host has given it back: memory of which `note_use`
// told a fence is kept from others until that has passed, as `settle` finds out.
// Errors: no room is an answer. Thread-safe: chunks for the disk are had from it beside copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/runtime/memory/host_room.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"
#include "spillway/runtime/transfer/extent_allocator.hpp"

namespace spillway::runtime {

class PinnedHostMemory final : public HostRoom {
 public:
  static constexpr Bytes kSlab = kMiB * 256;

  PinnedHostMemory(StreamClock& clock, Bytes limit, Bytes slab = kSlab);
  /// Waits for what the device may still read.
  ~PinnedHostMemory() override;

  void set_limit(Bytes limit) override;
  /// Memory for a copy, on a page; null if the budget has no room for it, or the machine no memory.
  [[nodiscard]] std::byte* allocate(Bytes bytes) override;
  /// The device reads or writes it until the fence has passed.
  void note_use(const std::byte* memory, const Fence& fence);
  /// It is others' when the uses that were noted are over; slabs are kept. `bytes` as when it was
  /// allocated.
  HostPages give_back(std::byte* memory, Bytes bytes) noexcept override;
  /// Makes memory whose fence has passed free.
  void settle();

  [[nodiscard]] bool could_hold(Bytes bytes) const override;
  [[nodiscard]] Bytes short_by(Bytes bytes) const override;

  [[nodiscard]] const MemoryBudget& budget() const { return budget_; }
  /// In copies, with what waits for its fence.
  [[nodiscard]] Bytes used() const override;
  /// Why some of the memory is not page-locked, for people; empty if all is.
  [[nodiscard]] std::string refusal() const;

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
  void free_now(std::byte* memory, Bytes bytes);
  void settle_locked();

  StreamClock& clock_;
  const Bytes slab_bytes_;
  mutable std::mutex mutex_;
  MemoryBudget budget_;
  std::map<std::byte*, Slab> slabs_;  // by first address
  std::map<const std::byte*, Fence> in_use_;
  std::deque<Waiting> waiting_;
  Bytes used_{};
  std::string refusal_;
};

}  // namespace spillway::runtime
