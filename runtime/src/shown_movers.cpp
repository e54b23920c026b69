// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/shown_movers.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>

namespace spillway::runtime {

nlohmann::ordered_json to_json(std::span<const MoveTally::Moved> movers) {
  auto json = nlohmann::ordered_json::array();
  for (const MoveTally::Moved& moved : movers) {
    json.push_back({{"name", moved.name}, {"moved_bytes", moved.bytes.count}});
  }
  return json;
}

void show(std::span<const MoveTally::Moved> movers, StatusSlot& slot) {
  const std::size_t shown = std::min(movers.size(), slot.movers.size());
  for (std::size_t i = 0; i < shown; ++i) {
    std::strncpy(slot.movers[i].name.data(), movers[i].name.c_str(), kMoverNameBytes - 1);
    slot.movers[i].moved_bytes.store(movers[i].bytes.count, std::memory_order_relaxed);
  }
}

}  // namespace spillway::runtime
