// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/freed_blocks.hpp"

#include <algorithm>

namespace spillway::runtime {

std::optional<FreedBlock> FreedBlocks::take(Bytes pages, StreamSlot slot) {
  const auto of_stream =
      std::find_if(with_pages_.rbegin(), with_pages_.rend(), [&](const FreedBlock& block) {
        return block.pages == pages && (block.fence.streams & ~mask_of(slot)) == 0;
      });
  auto found = with_pages_.end();
  if (of_stream != with_pages_.rend()) {
    found = std::prev(of_stream.base());
  } else {
    found = std::ranges::find(with_pages_, pages, &FreedBlock::pages);
  }
  if (found == with_pages_.end()) return std::nullopt;
  const FreedBlock block = *found;
  with_pages_.erase(found);
  bytes_ -= block.pages;
  return block;
}

std::optional<FreedBlock> FreedBlocks::take_last(Bytes pages) {
  const auto found = std::find_if(with_pages_.rbegin(), with_pages_.rend(),
                                  [&](const FreedBlock& block) { return block.pages == pages; });
  if (found == with_pages_.rend()) return std::nullopt;
  const FreedBlock block = *found;
  remove(block);
  return block;
}

void FreedBlocks::remove(const FreedBlock& block) {
  const auto found = std::ranges::find(with_pages_, block.address, &FreedBlock::address);
  if (found == with_pages_.end()) return;
  bytes_ -= found->pages;
  with_pages_.erase(found);
}

std::optional<DeviceAddress> FreedBlocks::take_vacant(Bytes pages) {
  const auto found = vacant_.find(pages.count);
  if (found == vacant_.end()) return std::nullopt;
  const DeviceAddress address = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) vacant_.erase(found);
  return address;
}

std::optional<FreedBlock> FreedBlocks::take_oldest() {
  if (with_pages_.empty()) return std::nullopt;
  const FreedBlock block = with_pages_.front();
  with_pages_.pop_front();
  bytes_ -= block.pages;
  return block;
}

}  // namespace spillway::runtime
