// SPDX-License-Identifier: Apache-2.0
// A schedule of the exact search as a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exact_state.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/planning/problem.hpp"

namespace spillway::planning::exact {

struct Noted {
  Deed deed = Deed::kTime;
  std::uint8_t what = 0;  ///< op or storage
  std::uint8_t kind = kPlain;
  std::size_t at = 0;    ///< op before which it is done
  bool running = false;  ///< or while which
};

/// A movement that begins while an op runs is queued before it where the op does not use it, else
/// after it. If `early`, copies out are queued before an op that does not use it, the last one
/// there was. A storage stays that leaves only after a further use. The plan may be wrong: plans
/// cannot say everything.
Plan plan_of(const Problem& problem, const std::vector<OpFacts>& ops, const State& begin,
             const std::vector<Noted>& deeds, bool early);

}  // namespace spillway::planning::exact
