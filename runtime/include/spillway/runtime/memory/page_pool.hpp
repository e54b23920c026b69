// SPDX-License-Identifier: Apache-2.0
// Moves held pages from one block to another instead of giving them back to the kernel and getting
// zeroed ones.
//
//     source   |chunk|chunk|chunk|            mremap, 2 us a chunk; a fresh one costs 240 us of
//                      \______\_______        zeroing
//     target   |chunk|                |  ->   |chunk|chunk|chunk|
//
// Both ranges lie in the one reservation, and no address in it is ever unmapped: with
// MREMAP_DONTUNMAP what the pages leave behind stays mapped, inaccessible and empty, so no foreign
// mapping can settle in the hole and be destroyed when pages come back.
//
// A move may cost kernel mappings, and leaves those behind that the pages were in. All are counted
// (MappingCount), and moving stops at half of what the kernel allows a process; pages come from the
// kernel then.
//
// Needs Linux 5.7 (MREMAP_DONTUNMAP) and transparent huge pages: with 4 KiB pages a move costs 512
// times as much. Not thread-safe: guarded by the engine's lock.
#pragma once

#include <cstdint>
#include <string>

#include "spillway/runtime/memory/block.hpp"
#include "spillway/runtime/memory/mapping_count.hpp"

namespace spillway::runtime {

class PagePool {
 public:
  /// `mappings` outlives this.
  explicit PagePool(MappingCount& mappings) : mappings_(mappings) {}

  /// Empty where pages can be moved; else why not, for people. Probed once per process.
  static const std::string& why_not();
  /// Whether the kernel moves pages at all, huge or not. Probed once per process.
  static bool kernel_moves_pages();

  /// Moves up to `count` chunks from the end of `source`'s to the end of `target`'s. Neither has a
  /// tail. Returns how many were moved: fewer than both could if the kernel refuses or mappings run
  /// short. The chunks keep their protection; what they leave is inaccessible.
  std::uint64_t move(Block& source, Block& target, std::uint64_t count);

  [[nodiscard]] std::uint64_t moved_chunks() const { return moved_chunks_; }

 private:
  MappingCount& mappings_;
  std::uint64_t moved_chunks_ = 0;
};

}  // namespace spillway::runtime
