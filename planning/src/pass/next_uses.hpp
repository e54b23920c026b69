// SPDX-License-Identifier: Apache-2.0
// The next use of each storage: by the ops of the step, and by recomputations that are to read it.
//
// Dropping a storage *pledges* what its recomputation reads: those inputs have a use more, before
// the op that needs the dropped one. Positions from the number of ops on are of the next step.
#pragma once

#include <unordered_map>
#include <vector>

#include "spillway/planning/analysis/access_table.hpp"

namespace spillway::planning::pass {

class NextUses {
 public:
  /// Refers to `table`.
  explicit NextUses(const AccessTable& table) : table_(table) {}

  /// The position of the next use after op `op` (kNoRow: from the beginning) of a storage whose
  /// last touch so far is `touch` (kNoRow: none).
  [[nodiscard]] Row after(Row storage, Row touch, Row op) const;

  /// A recomputation before op `at` reads the storage.
  void pledge(Row storage, Row at) { pledges_[storage].push_back(at); }
  /// The storage is dead: nothing reads it any more.
  void remove(Row storage) { pledges_.erase(storage); }

 private:
  const AccessTable& table_;
  std::unordered_map<Row, std::vector<Row>> pledges_;  // by storage: ops
};

}  // namespace spillway::planning::pass
