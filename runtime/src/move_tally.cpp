// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/move_tally.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace spillway::runtime {

std::size_t MoveTally::Hash::operator()(const Kind& kind) const {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio
  return std::hash<const char*>{}(kind.made_by) ^ static_cast<std::size_t>(kind.size.count * kOdd);
}

void MoveTally::add(const char* made_by, Bytes size) {
  const Kind kind{made_by, size};
  if (moved_.size() == kMostKinds && !moved_.contains(kind)) discard_least_half();
  moved_[kind] += size;
}

// Once for every kMostKinds / 2 new kinds.
void MoveTally::discard_least_half() {
  std::vector<Bytes> moved;
  moved.reserve(moved_.size());
  for (const auto& [kind, bytes] : moved_) moved.push_back(bytes);
  const auto middle = moved.begin() + static_cast<std::ptrdiff_t>(moved.size() / 2);
  std::ranges::nth_element(moved, middle);
  const Bytes least = *middle;
  std::size_t to_discard = moved.size() / 2;
  std::erase_if(moved_, [&](const auto& entry) {
    if (to_discard == 0 || entry.second > least) return false;
    --to_discard;
    return true;
  });
}

std::vector<MoveTally::Moved> MoveTally::top(std::size_t count) const {
  std::vector<std::pair<Bytes, Kind>> kinds;
  kinds.reserve(moved_.size());
  for (const auto& [kind, bytes] : moved_) kinds.emplace_back(bytes, kind);
  count = std::min(count, kinds.size());
  std::ranges::partial_sort(kinds, kinds.begin() + static_cast<std::ptrdiff_t>(count),
                            std::ranges::greater{}, &std::pair<Bytes, Kind>::first);
  std::vector<Moved> result;
  for (std::size_t i = 0; i < count; ++i) {
    const Kind& kind = kinds[i].second;
    result.push_back({fmt::format("{} {}", kind.made_by == nullptr ? "unknown" : kind.made_by,
                                  to_string(kind.size)),
                      kinds[i].first});
  }
  return result;
}

}  // namespace spillway::runtime
