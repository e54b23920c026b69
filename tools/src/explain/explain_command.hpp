// SPDX-License-Identifier: Apache-2.0
// `spillway explain`: the decisions of a plan, with what the alternative would have cost.
//
// The decision about a storage is judged by the other ways (plan_variants.hpp): the same plan with
// that one decision changed is simulated, and is longer, shorter or does not fit.
//
// Reads plan and trace and computes on the calling thread. Throws UserError for mistakes in flags
// and files. The answer owns what it holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "explain/other_outcomes.hpp"
#include "explain/plan_variants.hpp"
#include "plan/planning_inputs.hpp"
#include "request/planning_request.hpp"
#include "spillway/plan/plan.hpp"

namespace spillway::tools {

/// The reason why a storage stays that nothing is done with.
enum class KeptBecause : std::uint8_t {
  kUnused,          ///< no op of the step uses it
  kAlwaysNeeded,    ///< there is no time between its uses
  kNothingBinds,    ///< what is alive while it is idle fits
  kDearToMove,      ///< its copies take longer than it is idle
  kOthersMakeRoom,  ///< others make the room that is needed
};

struct ExplanationAnswer {
  struct CopyTimes {
    TimeNs out = 0;
    TimeNs in = 0;
  };
  /// The reason for which a storage stays.
  struct Kept {
    KeptBecause because = KeptBecause::kUnused;
    Bytes alive{};                  ///< at most, while it is idle
    std::optional<TimeNs> idle_ns;  ///< nothing where it is never idle
  };
  struct AboutStorage {
    Decision decision;
    std::string origin;
    /// The longest stretch without a use in which the plan has it away; of one that is kept, of
    /// all.
    TimeNs unneeded_ns = 0;
    std::optional<CopyTimes> copies;  ///< nothing where the machine has no links
    std::optional<Kept> kept;
    std::vector<std::pair<OtherWay, Outcome>> otherwise;
  };
  struct AboutOp {
    PlanAction choice;
    Outcome if_recorded;
  };

  PlanningInputs inputs;
  std::string planner;
  TimeNs step_ns = 0;  ///< with the plan as it is
  std::vector<AboutStorage> storages;
  std::size_t storages_found = 0;  ///< of which those above are the largest
  std::vector<AboutOp> ops;
  std::size_t ops_found = 0;
};

ExplanationAnswer explain_plan(const PlanningRequest& request);

}  // namespace spillway::tools
