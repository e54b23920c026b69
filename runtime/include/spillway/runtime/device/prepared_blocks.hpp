// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/freed_blocks.hpp"

namespace spillway::runtime {

/// Blocks that have pages, or will soon, for allocations to come. Not thread-safe: guarded by its
/// owner's lock.
class PreparedBlocks {
 public:
  void add(const FreedBlock& block) {
    blocks_.push_back(block);
    bytes_ += block.pages;
  }
  /// The first of that size.
  std::optional<FreedBlock> take(Bytes pages) {
    return take_at(std::ranges::find(blocks_, pages, &FreedBlock::pages));
  }
  /// The one that is needed last.
  std::optional<FreedBlock> take_last() {
    return take_at(blocks_.empty() ? blocks_.end() : blocks_.end() - 1);
  }

  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return blocks_.size(); }
  /// Blocks of such sizes will be allocated, in that order: those come first that are here, and of
  /// them first what is needed first. Returns the sizes that are not here yet. What is behind the
  /// first `expected.size() - lacking.size()` is not expected any more.
  std::vector<Bytes> arrange(std::span<const Bytes> expected) {
    std::vector<Bytes> lacking;
    auto placed = blocks_.begin();
    for (const Bytes pages : expected) {
      const auto found = std::find_if(
          placed, blocks_.end(), [pages](const FreedBlock& block) { return block.pages == pages; });
      if (found == blocks_.end()) {
        lacking.push_back(pages);
      } else {
        std::rotate(placed, found, found + 1);
        ++placed;
      }
    }
    return lacking;
  }

 private:
  std::optional<FreedBlock> take_at(std::vector<FreedBlock>::iterator at) {
    if (at == blocks_.end()) return std::nullopt;
    const FreedBlock block = *at;
    blocks_.erase(at);
    bytes_ -= block.pages;
    return block;
  }

  std::vector<FreedBlock> blocks_;  // needed first first
  Bytes bytes_{};
};

}  // namespace spillway::runtime
