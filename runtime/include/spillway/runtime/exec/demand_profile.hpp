// SPDX-License-Identifier: Apache-2.0
// The memory that each op of a repeating step needs if nothing has left the device.
//
//     op of the period    0   1   2   3   4   5
//     demand              3   5   9   7   4   3      most(4, 3) = max of ops 4, 5, 0 = 4
//
// A segment tree over the ops of one period: `set` and `most` are logarithmic. Units: bytes.
// Single-threaded; throws only std::bad_alloc.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace spillway::runtime {

class DemandProfile {
 public:
  DemandProfile() = default;
  explicit DemandProfile(std::uint64_t ops)
      : ops_(ops),
        leaves_(std::bit_ceil(std::max<std::uint64_t>(ops, 1))),
        tree_(2 * leaves_),
        known_(ops) {}

  [[nodiscard]] std::uint64_t ops() const { return ops_; }
  /// Whether every op was set at least once.
  [[nodiscard]] bool complete() const { return ops_ != 0 && known_count_ == ops_; }

  void set(std::uint64_t op, std::uint64_t bytes) {
    std::uint64_t node = leaves_ + op;
    if (!known_[op]) {
      known_[op] = true;
      ++known_count_;
    }
    if (tree_[node] == bytes) return;
    tree_[node] = bytes;
    for (node /= 2; node != 0; node /= 2) {
      const std::uint64_t most = std::max(tree_[2 * node], tree_[2 * node + 1]);
      if (tree_[node] == most) return;
      tree_[node] = most;
    }
  }

  /// Over the whole period.
  [[nodiscard]] std::uint64_t most() const { return ops_ == 0 ? 0 : tree_[1]; }

  /// Over `count` ops from `first` on, which may run over the period's end. No op: 0.
  [[nodiscard]] std::uint64_t most(std::uint64_t first, std::uint64_t count) const {
    if (count >= ops_) return most();
    first %= ops_;
    const std::uint64_t end = first + count;
    return end <= ops_ ? range(first, end) : std::max(range(first, ops_), range(0, end - ops_));
  }

 private:
  [[nodiscard]] std::uint64_t range(std::uint64_t begin, std::uint64_t end) const {
    std::uint64_t result = 0;
    for (begin += leaves_, end += leaves_; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 != 0) result = std::max(result, tree_[begin++]);
      if (end % 2 != 0) result = std::max(result, tree_[--end]);
    }
    return result;
  }

  std::uint64_t ops_ = 0;
  std::uint64_t leaves_ = 0;
  std::vector<std::uint64_t> tree_;
  std::vector<bool> known_;
  std::uint64_t known_count_ = 0;
};

}  // namespace spillway::runtime
