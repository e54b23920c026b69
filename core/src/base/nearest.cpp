// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace spillway {
namespace {

// Optimal string alignment distance. Row i of the table needs the two rows before it, the second
// of them for the swap of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::optional<std::string_view> nearest_word(std::string_view word,
                                             std::span<const std::string_view> candidates) {
  std::optional<std::string_view> nearest;
  std::size_t least = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t allowed = (std::max(word.size(), candidate.size()) + 2) / 3;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance <= allowed && (!nearest || distance < least)) {
      nearest = candidate;
      least = distance;
    }
  }
  return nearest;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> candidates,
                       std::string_view prefix) {
  const auto nearest = nearest_word(word, candidates);
  return nearest ? fmt::format(" Did you mean \"{}{}\"?", prefix, *nearest) : "";
}

}  // namespace spillway
