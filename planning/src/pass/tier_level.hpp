// SPDX-License-Identifier: Apache-2.0
// The bytes on a slower tier before each op of the step, as far as a pass has decided it.
//
//     bytes |        ______            budget - - - - - - - - - -
//           |   ____|      |____                 ____
//           |__|  a copy made early ->|=========|    what is decided so far lasts to the end
//           +------------------------------------------------ ops
//
// A copy is decided on at one op and made before an earlier one, where the tier may have been
// fuller than it is now: the room has to be there all the while. Not looked at in detail where
// everything alive would find room. O(log^2 ops) for each change.
#pragma once

#include <cstdint>
#include <optional>

#include "pass/range_max.hpp"
#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning::pass {

class TierLevel {
 public:
  /// Holds nothing. `most_alive`: bytes that are never exceeded.
  TierLevel(std::uint64_t budget, std::uint64_t most_alive, Row ops);

  /// A copy is there before op `at` and from then on.
  void add(std::uint64_t bytes, Row at);
  /// The bytes there before op `at` are gone after it.
  void remove(std::uint64_t bytes, Row at);
  [[nodiscard]] bool has_room(std::uint64_t bytes, Row at) const;
  /// The first op from `from` on before which a copy may be made that stays until op `at`, where
  /// there is room.
  [[nodiscard]] Row earliest(std::uint64_t bytes, Row from, Row at) const;

 private:
  std::uint64_t budget_;
  std::uint64_t now_ = 0;
  std::optional<RangeMax> before_op_;  // where the tier is scarce
};

}  // namespace spillway::planning::pass
