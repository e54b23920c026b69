// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/block.hpp"

namespace spillway::runtime {

/// Blocks whose pages nobody needs now, oldest first. Intrusive: a block is in one list at most.
class BlockList {
 public:
  BlockList() = default;
  BlockList(const BlockList&) = delete;
  BlockList& operator=(const BlockList&) = delete;

  void push(Block& block, std::uint64_t now) {
    block.list = this;
    block.listed_at = now;
    block.age_previous = newest_;
    block.age_next = nullptr;
    (newest_ != nullptr ? newest_->age_next : oldest_) = &block;
    newest_ = &block;
    bytes_ += {block.resident};
  }
  void remove(Block& block) {
    (block.age_previous != nullptr ? block.age_previous->age_next : oldest_) = block.age_next;
    (block.age_next != nullptr ? block.age_next->age_previous : newest_) = block.age_previous;
    block.list = nullptr;
    bytes_ -= {block.resident};
  }
  /// A listed block holds `bytes` less than before.
  void shrink(Bytes bytes) { bytes_ -= bytes; }

  [[nodiscard]] Block* oldest() const { return oldest_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }  ///< of pages held

 private:
  Block* oldest_ = nullptr;
  Block* newest_ = nullptr;
  Bytes bytes_{};
};

}  // namespace spillway::runtime
