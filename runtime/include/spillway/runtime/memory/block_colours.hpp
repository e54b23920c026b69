// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "spillway/runtime/memory/block.hpp"

namespace spillway::runtime {

/// Whether a block's bytes begin somewhere into its range, at another offset than its neighbours'.
///
/// Blocks of 2 MiB and more begin at one of eight pages, smaller ones at one of sixteen places in
/// their first page. If all began at equal offsets their lines would contend for the same cache
/// sets, and kernels that use several at once run up to 8 % slower; steps of small ops 1 %.
enum class Colouring : bool { kNo, kYes };

/// Deals out the offsets, one after the other. Not thread-safe.
class BlockColours {
 public:
  /// The largest offset of a block with that many bytes of addresses, in bytes.
  [[nodiscard]] static std::uint64_t room(std::uint64_t capacity) {
    return scheme(capacity).room();
  }

  /// The offset of the next such block, in bytes.
  std::uint32_t next(std::uint64_t capacity) {
    const Scheme& its = scheme(capacity);
    return (&its == &kPages ? next_page_ : next_line_)++ % its.count * its.step;
  }

 private:
  struct Scheme {
    std::uint32_t count;
    std::uint32_t step;  // bytes
    [[nodiscard]] std::uint64_t room() const { return std::uint64_t{count - 1} * step; }
  };
  // For blocks for which whole pages are less than 2 %.
  static constexpr std::uint64_t kPagesFrom = 2 << 20;
  static constexpr Scheme kPages{.count = 8, .step = kPage};
  // For those below: an odd number of lines reaches all sets, and all of them are in the first
  // page.
  static constexpr Scheme kLines{.count = 16, .step = 3 * 64};

  static const Scheme& scheme(std::uint64_t capacity) {
    return capacity >= kPagesFrom ? kPages : kLines;
  }

  std::uint32_t next_page_ = 0;
  std::uint32_t next_line_ = 0;
};

}  // namespace spillway::runtime
