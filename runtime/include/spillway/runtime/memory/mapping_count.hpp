// SPDX-License-Identifier: Apache-2.0
// Counts the kernel's mappings that the reservation may be made of.
//
//     blocks     |------ A ------|------ B ------|   gap   |--- C ---|
//     may change ^       ^   ^   ^     ^         ^         ^         ^   edges and cuts
//
// Two neighbouring addresses may be in different mappings where a block begins or ends (one may be
// accessible, the other not) and inside a block at its *cuts*: where pages came from elsewhere,
// where they left, where the kernel may begin to use huge pages. Whether the kernel did merge both
// sides cannot be seen without reading its whole map, so each counts as one mapping more: an upper
// bound. vm.max_map_count limits a process; those parts of it (see mapping_count.cpp) are ours:
//
//     a quarter         from here on blocks that lose their pages lose their cuts too
//     half              no pages are moved
//     three quarters    evicted blocks stay accessible
//
// Not thread-safe: guarded by the engine's lock.
#pragma once

#include <cstdint>

#include "spillway/runtime/memory/block.hpp"

namespace spillway::runtime {

class MappingCount {
 public:
  /// `allowed` is how many mappings the process may have; 0: as many as the kernel says
  /// (vm.max_map_count).
  explicit MappingCount(std::uint64_t allowed);

  /// `block` got its range of addresses; `follows`: it begins where the one before it ends.
  void add(bool follows) { edges_ += follows ? 1 : 2; }
  /// There may be a change of mapping at the block's chunk of that index.
  void cut(Block& block, std::uint64_t chunk);
  /// Chunks [first, last) became one mapping.
  void join(Block& block, std::uint64_t first, std::uint64_t last);
  /// `to`, of the same class, became what `from` is made of.
  void copy_cuts(const Block& from, Block& to);
  /// The whole block became one mapping.
  void clear_cuts(Block& block);

  /// Mappings of the reservation: at most so many.
  [[nodiscard]] std::uint64_t bound() const { return 1 + edges_ + cuts_; }
  [[nodiscard]] std::uint64_t allowed() const { return allowed_; }
  [[nodiscard]] bool crowded() const { return bound() > allowed_ / 4; }
  [[nodiscard]] bool may_move() const { return bound() + kPerMove <= allowed_ / 2; }
  [[nodiscard]] bool may_protect() const { return bound() <= allowed_ / 4 * 3; }

 private:
  static constexpr std::uint64_t kPerMove = 4;  ///< cuts at both ends of what came and what left

  std::uint64_t allowed_;
  std::uint64_t edges_ = 0;
  std::uint64_t cuts_ = 0;
};

}  // namespace spillway::runtime
