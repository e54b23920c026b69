// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/block.hpp"
#include "spillway/runtime/memory/block_list.hpp"

namespace spillway::runtime {

/// The blocks of an Arena that hold pages nobody needs now, and the order in which they lose them.
///
/// A *cached* block is freed: the next request of its size class gets it with its pages. A
/// *lingering* block is evicted: its bytes are of use if they are wanted before its pages are.
/// Every cached block goes before any lingering one, and among equals the one that is idle longest.
///
/// The blocks are the arena's. Not thread-safe, as the arena.
class IdleBlocks {
 public:
  explicit IdleBlocks(std::uint32_t size_classes) : heads_(size_classes, nullptr) {}

  /// Both take a block that holds pages and is in no list: one that is not in use, and one that is.
  void cache(Block& block);
  void linger(Block& block);

  /// The block of that class that was freed last, in no list any more. Null if none is cached.
  Block* take_cached(std::uint32_t size_class);
  /// The block is not idle any more.
  void remove(Block& block);

  /// The block whose pages go first; null if no block is idle.
  [[nodiscard]] Block* oldest() const;
  /// Likewise, of those that hold a whole chunk.
  [[nodiscard]] Block* oldest_with_chunks() const;

  /// Pages of freed, and of evicted blocks.
  [[nodiscard]] Bytes cached() const { return cached_.bytes() + cached_small_.bytes(); }
  [[nodiscard]] Bytes lingering() const { return lingering_.bytes() + lingering_small_.bytes(); }

 private:
  std::vector<Block*> heads_;  // cached, by class, the one freed last first
  BlockList cached_;           // with chunks
  BlockList cached_small_;     // without
  BlockList lingering_;
  BlockList lingering_small_;
  std::uint64_t clock_ = 0;
};

}  // namespace spillway::runtime
