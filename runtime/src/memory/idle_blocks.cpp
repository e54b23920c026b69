// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/idle_blocks.hpp"

namespace spillway::runtime {

void IdleBlocks::cache(Block& block) {
  Block*& head = heads_[block.size_class];
  block.class_previous = nullptr;
  block.class_next = head;
  if (head != nullptr) head->class_previous = &block;
  head = &block;
  (block.chunks() != 0 ? cached_ : cached_small_).push(block, ++clock_);
}

void IdleBlocks::linger(Block& block) {
  (block.chunks() != 0 ? lingering_ : lingering_small_).push(block, ++clock_);
}

Block* IdleBlocks::take_cached(std::uint32_t size_class) {
  Block* const block = heads_[size_class];
  if (block != nullptr) remove(*block);
  return block;
}

void IdleBlocks::remove(Block& block) {
  block.list->remove(block);
  if (block.in_use) return;  // it lingered
  (block.class_previous != nullptr ? block.class_previous->class_next : heads_[block.size_class]) =
      block.class_next;
  if (block.class_next != nullptr) block.class_next->class_previous = block.class_previous;
}

Block* IdleBlocks::oldest() const {
  Block* large = cached_.oldest();
  Block* small = cached_small_.oldest();
  if (large == nullptr && small == nullptr) {
    large = lingering_.oldest();
    small = lingering_small_.oldest();
  }
  if (large == nullptr || small == nullptr) return large != nullptr ? large : small;
  return large->listed_at < small->listed_at ? large : small;
}

Block* IdleBlocks::oldest_with_chunks() const {
  return cached_.oldest() != nullptr ? cached_.oldest() : lingering_.oldest();
}

}  // namespace spillway::runtime
