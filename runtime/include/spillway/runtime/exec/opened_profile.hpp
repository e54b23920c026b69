// SPDX-License-Identifier: Apache-2.0
// The blocks that the ops of a repeating step allocate and that have memory put behind them for it,
// since no freed one of their size was there.
//
//     op of the period    0     1   2      3   4
//     opened              8,8       16,4       8        coming(1, 4): 16, 4, 8
//
// As noted in the latest pass. Units: bytes of a block's room. Single-threaded; throws only
// std::bad_alloc.
#pragma once

#include <cstdint>
#include <vector>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

class OpenedProfile {
 public:
  OpenedProfile() = default;
  explicit OpenedProfile(std::uint64_t ops) : opened_(ops) {}

  [[nodiscard]] std::uint64_t ops() const { return opened_.size(); }

  void set(std::uint64_t op, const std::vector<Bytes>& opened) { opened_[op] = opened; }

  /// Of `count` ops from `first` on, which may run over the period's end, in order.
  [[nodiscard]] std::vector<Bytes> coming(std::uint64_t first, std::uint64_t count) const {
    std::vector<Bytes> coming;
    for (std::uint64_t i = 0; i < count && i < ops(); ++i) {
      const std::vector<Bytes>& opened = opened_[(first + i) % ops()];
      coming.insert(coming.end(), opened.begin(), opened.end());
    }
    return coming;
  }

 private:
  std::vector<std::vector<Bytes>> opened_;
};

}  // namespace spillway::runtime
