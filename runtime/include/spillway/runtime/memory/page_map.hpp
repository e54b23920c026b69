// SPDX-License-Identifier: Apache-2.0
// One reservation of address space and the map from an address in it to its block.
//
//     reservation  |0000|0000|0000|1111|2222|2222|....|    granules of 64 KiB, one block each
//     map          [ b0 , b0 , b0 , b1 , b2 , b2 , - ]
//
// A page map instead of a header in front of each block: a header would add a page to every
// power-of-two tensor, and the pointer handed out must be the pointer that is freed. Lookup is one
// load and takes no lock; `assign` is guarded by the owner's lock. The reservation is given back
// with the map, which must outlive everybody who has an address in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

struct Block;

class PageMap {
 public:
  /// Bytes per map entry: small enough that a block's unused tail costs only address space, large
  /// enough that the map of the whole reservation stays cheap (8 bytes per 64 KiB, touched lazily).
  static constexpr std::uint64_t kGranule = 64 << 10;

  /// Reserves `reservation` bytes, or as much below it as the address-space limit allows, but at
  /// least `minimum`. Throws UserError naming the limit where even that is refused.
  PageMap(Bytes reservation, Bytes minimum);
  ~PageMap();
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  /// The block that owns `address`, or null. Any thread.
  [[nodiscard]] Block* find(const void* address) const {
    const auto offset = reinterpret_cast<std::uintptr_t>(address) - base_;
    if (offset >= size_) return nullptr;
    return entries_[offset / kGranule].load(std::memory_order_acquire);
  }

  /// Takes the next `bytes` of address space, aligned to `alignment` (a power of two, at least one
  /// granule); null when the reservation is used up.
  std::byte* carve(std::uint64_t bytes, std::uint64_t alignment);

  /// Makes [address, address + bytes) one empty, inaccessible mapping. At no time it is unmapped.
  /// False if the kernel refuses.
  static bool renew(std::byte* address, std::uint64_t bytes);

  /// Undoes mlockall for the reservation: pages that are locked can't be given back.
  void unlock() const;

  /// Records `block` as the owner of its range.
  void assign(Block& block);

  [[nodiscard]] std::uintptr_t begin() const { return base_; }
  [[nodiscard]] Bytes reserved() const { return {size_}; }
  [[nodiscard]] Bytes carved() const { return {next_}; }

 private:
  bool make_entries_writable(std::uint64_t addresses);

  std::uintptr_t base_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t writable_to_ = 0;  // entries of addresses up to there are writable
  std::atomic<Block*>* entries_ = nullptr;
};

}  // namespace spillway::runtime
