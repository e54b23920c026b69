// SPDX-License-Identifier: Apache-2.0
// Plans that differ from a given one in the decision about one storage: what else could have been
// done with it. `spillway explain` simulates them to say what the decision is worth.
//
// Pure functions; thread-safe. The plan must be of the trace. Whether a variant works is not
// looked at: validator and simulator tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "explain/storage_uses.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/planning/problem.hpp"

namespace spillway::tools {

/// All that a plan does with one storage.
struct Decision {
  StorageId storage{};
  std::vector<PlanAction> actions;  ///< recomputations that bring it back included
  std::optional<PlanPlace> place;

  /// Whether nothing is done with it.
  [[nodiscard]] bool is_kept() const { return actions.empty() && !place; }
};

enum class OtherWay : std::uint8_t {
  kLeftAlone,  ///< the same plan without the actions on the storage
  kToHost,     ///< where it goes to the disk, or stays
  kToDisk,     ///< where it goes to the host, or stays
  kRecompute,  ///< dropped and computed again, where it is copied out and in, or stays
  kSwap,       ///< copied out and in, where it is computed again
};
/// `left-alone`, `to-host`, `to-disk`, `recompute`, `swap`.
std::string_view to_string(OtherWay way);

struct PlanVariant {
  OtherWay way = OtherWay::kLeftAlone;
  Plan plan;
};

/// The first is kLeftAlone; the others are there where trace, machine and budgets know them: a
/// tier needs a budget, recomputing a recomputable op that makes the storage. What the recomputed
/// op reads and is dead by then is made again as well. kSwap is there twice: a copy in is queued
/// one copy time before the use, or, which may need less room, at it.
std::vector<PlanVariant> plan_variants(const planning::Problem& problem, const Plan& plan,
                                       const Decision& decision);

/// The same plan with a storage that it leaves alone away during the stretch, which is one of
/// StorageUses::longest: on each tier with a budget, with the two times to fetch it of kSwap, and
/// recomputed where that can be.
std::vector<PlanVariant> ways_to_leave(const planning::Problem& problem, const Plan& plan,
                                       StorageId storage, const IdleStretch& stretch);

}  // namespace spillway::tools
