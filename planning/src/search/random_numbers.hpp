// SPDX-License-Identifier: Apache-2.0
// Pseudo-random numbers, the same on every machine and with every library: a search that is not
// ended by the clock takes the same course everywhere. Not for more than one thread.
//
// Source: G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
#pragma once

#include <cstdint>

namespace spillway::planning {

class RandomNumbers {
 public:
  /// In [0, 1).
  double share() { return static_cast<double>(next()) * 0x1p-53; }
  /// In [0, `limit`); `limit` is not 0.
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }

 private:
  // 53 bits: the lowest ones are the least random.
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ >> 11;
  }

  std::uint64_t state_ = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio; any but 0 would do
};

}  // namespace spillway::planning
