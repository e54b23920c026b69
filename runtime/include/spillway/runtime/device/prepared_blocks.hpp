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
  /// Of blocks that will be allocated in that order, those that are not here yet.
  [[nodiscard]] std::vector<Bytes> lacking(std::span<const Bytes> expected) const {
    std::vector<Bytes> here;
    for (const FreedBlock& block : blocks_) here.push_back(block.pages);
    std::vector<Bytes> lacking;
    for (const Bytes pages : expected) {
      const auto found = std::ranges::find(here, pages);
      if (found == here.end()) {
        lacking.push_back(pages);
      } else {
        here.erase(found);
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
