// SPDX-License-Identifier: Apache-2.0
// A plan as planners think of it: what becomes of every gap.
//
//     touch      gap                                   touch of the same storage
//     op 3  [    out_at 4 ........ in_at 11   ]        op 13
//               evict or drop      fetch
//
// A gap is named by the touch before it (access_table.hpp); gaps that wrap around the end of the
// step have positions from `ops` on in the next step. An input, which no touch precedes, has a
// leading gap of its own, and what lives on untouched has none but a tier where it lies.
//
// `write_plan` turns a draft into actions and works out where each storage is when the step begins.
// A value. Linear time, but for sorting.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "spillway/machine/tier.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/planning/cost/step_model.hpp"
#include "spillway/planning/problem.hpp"

namespace spillway::planning {

enum class Remedy : std::uint8_t {
  kKeep,
  kHost,
  kDisk,
  kDrop,  ///< dropped: nothing reads it again, or a recomputation of the draft brings it back
};

struct GapChoice {
  Remedy remedy = Remedy::kKeep;
  bool wait_out = false;  ///< computing waits for the copy out
  bool wait_in = false;   ///< computing waits for the copy in when it is queued
  bool after_recomputations =
      false;  ///< leaves when the recomputations before op `out_at` have run, not before
  Row out_at = 0;
  Row in_at = kNoRow;  ///< kNoRow: no fetch is queued
  Row more = kNoRow;   ///< row of Draft::again: leaves once more within the same gap

  bool operator==(const GapChoice&) const = default;
};

struct Recompute {
  Row at = 0;  ///< before this op
  Row op = 0;

  auto operator<=>(const Recompute&) const = default;
};

/// A storage that a recomputation brought back and that is dropped again before the op begins.
struct Redrop {
  Recompute after;  ///< the last recomputation that reads it
  Row storage = 0;

  bool operator==(const Redrop&) const = default;
};

struct Draft {
  explicit Draft(const AccessTable& table)
      : gap(table.touches()), leading(table.storages()), idle(table.storages(), Tier::kDevice) {}
  Draft() = default;

  std::vector<GapChoice> gap;      ///< by touch
  std::vector<GapChoice> leading;  ///< by storage; of inputs only
  std::vector<GapChoice> again;  ///< where a recomputation needs a storage in the middle of its gap
  std::vector<Tier> idle;        ///< by storage; of those alive all step long and never touched
  std::vector<Recompute>
      recomputations;  ///< in any order; several before one op run by ascending op
  std::vector<Redrop> redrops;
  std::vector<std::pair<Row, std::uint32_t>> alternatives;  ///< op and which

  bool operator==(const Draft&) const = default;
};

Plan write_plan(const Problem& problem, const StepModel& model, const Draft& draft,
                std::string planner);

}  // namespace spillway::planning
