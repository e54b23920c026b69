// SPDX-License-Identifier: Apache-2.0
// Blocks of addresses that no storage has, by the bytes of their pages.
//
//   with pages      their last users may still run: `fence` tells when they have ended. Taken by
//                   work of the same stream, nobody waits
//   without pages   addresses alone
//
// Not thread-safe: guarded by its owner's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/device_driver.hpp"
#include "spillway/runtime/device/fence.hpp"

namespace spillway::runtime {

struct FreedBlock {
  DeviceAddress address{};
  Bytes pages{};
  Fence fence;
};

class FreedBlocks {
 public:
  void add(const FreedBlock& block) {
    with_pages_.push_back(block);
    bytes_ += block.pages;
  }
  void add_vacant(DeviceAddress address, Bytes pages) { vacant_[pages.count].push_back(address); }

  /// One with pages of that size, if there is one: first of those that only this stream used, the
  /// last to be freed; else the first to be freed, which is the likeliest to have ended.
  std::optional<FreedBlock> take(Bytes pages, StreamSlot slot);
  /// One with pages of that size, the last to be freed.
  std::optional<FreedBlock> take_last(Bytes pages);
  std::optional<DeviceAddress> take_vacant(Bytes pages);
  /// The one with pages that was freed first, whatever its size.
  std::optional<FreedBlock> take_oldest();
  /// Takes this one of those with pages.
  void remove(const FreedBlock& block);
  /// Those with pages, first to be freed first.
  [[nodiscard]] const std::deque<FreedBlock>& blocks() const { return with_pages_; }
  /// Of those with pages.
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  std::deque<FreedBlock> with_pages_;  // first to be freed first
  Bytes bytes_{};
  std::map<std::uint64_t, std::vector<DeviceAddress>> vacant_;
};

}  // namespace spillway::runtime
