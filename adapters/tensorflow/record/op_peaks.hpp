// SPDX-License-Identifier: Apache-2.0
// The most that was allocated while each of the ops ran that run now. A value, which its owner
// guards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

#include "spillway/base/bytes.hpp"

namespace spillway::tf {

class OpPeaks {
 public:
  /// `live`: all that is allocated then.
  void allocated(Bytes live) {
    live_ = live;
    for (auto& [op, peak] : open_) peak = std::max(peak, live);
  }
  void freed(Bytes bytes) { live_ = saturating_sub(live_, bytes); }

  /// Ops by any number of their owner's. Returns what is allocated now.
  Bytes begin(std::size_t op) { return open_[op] = live_; }
  /// Nothing of an op that does not run.
  std::optional<Bytes> end(std::size_t op) {
    const auto node = open_.extract(op);
    return node ? std::optional(node.mapped()) : std::nullopt;
  }
  void end_all() { open_.clear(); }

 private:
  Bytes live_{};
  std::map<std::size_t, Bytes> open_;
};

}  // namespace spillway::tf
