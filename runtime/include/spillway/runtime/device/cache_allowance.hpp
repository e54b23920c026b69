// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

/// How much a device tier holds where its budget has room for more: what was ever needed at once, a
/// share of that on top, and what the program has shown to need again.
///
///     a step of blocks of one size each     A  B  C  A  B  C  A  B  C
///     held for the most that was live       A  B gives up A, C gives up B ..., as long as nobody
///                                           notes that A is needed anew; then A is held, too
///
/// A block serves one size alone, so a step that fits may need more pages than its peak: those of
/// blocks that one part of it has freed and another part will not take. Each that leaves and comes
/// back is some 100 us of the host on an H100. Not thread-safe.
class CacheAllowance {
 public:
  /// Of the most that was live.
  void set_slack(double share) { slack_ = share; }

  [[nodiscard]] Bytes most(Bytes peak_live) const {
    const auto slack = static_cast<std::uint64_t>(static_cast<double>(peak_live.count) * slack_);
    return peak_live + Bytes{slack} + needed_again_;
  }

  /// A freed block of that size gave up its pages for no other reason than this allowance.
  void gave_up(Bytes pages) { ++given_up_[pages.count]; }
  /// Pages are asked for, to put them behind a block of that size.
  void takes(Bytes pages) {
    const auto found = given_up_.find(pages.count);
    if (found == given_up_.end()) return;
    if (--found->second == 0) given_up_.erase(found);
    needed_again_ += pages;
  }
  /// The program asked for what is idle to be given back: all begins anew.
  void forget() {
    given_up_.clear();
    needed_again_ = {};
  }

 private:
  double slack_ = 0.125;
  std::map<std::uint64_t, std::uint64_t> given_up_;  // blocks, by the bytes of their pages
  Bytes needed_again_{};
};

}  // namespace spillway::runtime
