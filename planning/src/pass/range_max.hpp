// SPDX-License-Identifier: Apache-2.0
// A row of numbers: adds to a stretch of it, and finds the largest of one. O(log n) each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spillway::planning {

class RangeMax {
 public:
  explicit RangeMax(std::span<const std::int64_t> values);

  /// To all of [first, last).
  void add(std::size_t first, std::size_t last, std::int64_t amount);
  /// Over [first, last), which must not be empty.
  [[nodiscard]] std::int64_t max(std::size_t first, std::size_t last) const;
  [[nodiscard]] std::int64_t max() const { return most_[1]; }

 private:
  void add(std::size_t node, std::size_t low, std::size_t high, std::size_t first, std::size_t last,
           std::int64_t amount);
  [[nodiscard]] std::int64_t max(std::size_t node, std::size_t low, std::size_t high,
                                 std::size_t first, std::size_t last) const;

  std::size_t leaves_ = 1;
  std::vector<std::int64_t> most_;   // of the node's stretch, `added_` of those above left out
  std::vector<std::int64_t> added_;  // to the whole stretch
};

}  // namespace spillway::planning
