// SPDX-License-Identifier: Apache-2.0
#include "pass/range_max.hpp"

#include <algorithm>
#include <limits>

namespace spillway::planning {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min() / 4;

}  // namespace

RangeMax::RangeMax(std::span<const std::int64_t> values) {
  while (leaves_ < std::max<std::size_t>(values.size(), 1)) leaves_ *= 2;
  most_.assign(2 * leaves_, kLeast);
  added_.assign(2 * leaves_, 0);
  std::copy(values.begin(), values.end(), most_.begin() + static_cast<std::ptrdiff_t>(leaves_));
  for (std::size_t node = leaves_; node-- > 1;) {
    most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
  }
}

void RangeMax::add(std::size_t first, std::size_t last, std::int64_t amount) {
  if (first < last) add(1, 0, leaves_, first, last, amount);
}

std::int64_t RangeMax::max(std::size_t first, std::size_t last) const {
  return max(1, 0, leaves_, first, last);
}

void RangeMax::add(std::size_t node, std::size_t low, std::size_t high, std::size_t first,
                   std::size_t last, std::int64_t amount) {
  if (last <= low || high <= first) return;
  if (first <= low && high <= last) {
    most_[node] += amount;
    added_[node] += amount;
    return;
  }
  const std::size_t middle = (low + high) / 2;
  add(2 * node, low, middle, first, last, amount);
  add(2 * node + 1, middle, high, first, last, amount);
  most_[node] = std::max(most_[2 * node], most_[2 * node + 1]) + added_[node];
}

std::int64_t RangeMax::max(std::size_t node, std::size_t low, std::size_t high, std::size_t first,
                           std::size_t last) const {
  if (last <= low || high <= first) return kLeast;
  if (first <= low && high <= last) return most_[node];
  const std::size_t middle = (low + high) / 2;
  return added_[node] + std::max(max(2 * node, low, middle, first, last),
                                 max(2 * node + 1, middle, high, first, last));
}

}  // namespace spillway::planning
