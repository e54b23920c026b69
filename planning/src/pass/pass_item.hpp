// SPDX-License-Identifier: Apache-2.0
// The state of one storage in a pass, at the op that it has reached. Plain values.
#pragma once

#include <cstdint>

#include "spillway/machine/tier.hpp"
#include "spillway/planning/analysis/access_table.hpp"

namespace spillway::planning::pass {

enum class Where : std::uint8_t { kUnborn, kIn, kHost, kDisk, kDropped, kDead };

struct PassItem {
  Where where = Where::kUnborn;
  bool host_copy = false;
  bool disk_copy = false;
  bool copied_now = false;    ///< by leaving last: there was no copy before
  bool unused = false;        ///< fetched, and not used since: the fetch may still be given up
  Row touch = kNoRow;         ///< the last one in this step
  Row next = kNoRow;          ///< position of the next use, by recomputations too
  Row free_from = 0;          ///< the first op before which it may leave
  Row pinned = kNoRow;        ///< the op that needs it
  Row read_again = kNoRow;    ///< the op before which a recomputation read it last
  std::uint32_t version = 0;  ///< of its entries among the candidates
  double ready = 0;           ///< ns: from then on its bytes may be copied out
  double arrival = 0;         ///< ns: when its copy in ends

  /// Its bytes lie on a slower tier alone.
  [[nodiscard]] bool is_away() const { return where == Where::kHost || where == Where::kDisk; }
  /// The tier that has its bytes, if it is away.
  [[nodiscard]] Tier slower_tier() const {
    return where == Where::kDisk ? Tier::kDisk : Tier::kHost;
  }
};

}  // namespace spillway::planning::pass
