// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/mapping_count.hpp"

#include <algorithm>
#include <fstream>

namespace spillway::runtime {

namespace {

// The limit of Linux unless it is changed (DEFAULT_MAX_MAP_COUNT).
constexpr std::uint64_t kDefaultMappings = 65'530;

std::uint64_t allowed_by_kernel() {
  std::uint64_t allowed = kDefaultMappings;
  std::ifstream("/proc/sys/vm/max_map_count") >> allowed;
  return allowed;
}

}  // namespace

MappingCount::MappingCount(std::uint64_t allowed)
    : allowed_(allowed != 0 ? allowed : allowed_by_kernel()) {}

void MappingCount::cut(Block& block, std::uint64_t chunk) {
  if (chunk == 0 || chunk * kChunk >= block.capacity) return;  // an edge
  const auto at = std::ranges::lower_bound(block.cuts, chunk);
  if (at != block.cuts.end() && *at == chunk) return;
  block.cuts.insert(at, static_cast<std::uint32_t>(chunk));
  ++cuts_;
}

void MappingCount::join(Block& block, std::uint64_t first, std::uint64_t last) {
  const auto begin = std::ranges::upper_bound(block.cuts, first);
  const auto end = std::lower_bound(begin, block.cuts.end(), last);
  cuts_ -= static_cast<std::uint64_t>(end - begin);
  block.cuts.erase(begin, end);
}

void MappingCount::copy_cuts(const Block& from, Block& to) {
  cuts_ += from.cuts.size();
  cuts_ -= to.cuts.size();
  to.cuts = from.cuts;
}

void MappingCount::clear_cuts(Block& block) {
  cuts_ -= block.cuts.size();
  block.cuts.clear();
}

}  // namespace spillway::runtime
