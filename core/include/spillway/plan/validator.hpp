// SPDX-License-Identifier: Apache-2.0
// Tells whether a plan is right, without planning or simulating. It is naive on purpose, and shares
// no code with anything that makes or runs plans.
//
// It walks the step once with every copy taking no time. Evictions are through at once; queued
// fetches take room on the device in their order, each as soon as it fits; an op's missing storages
// come in when it begins. What each tier holds then must stay within its budget at every op. A plan
// that keeps to this keeps to the budgets with any links: copies that take longer start their
// fetches later and make computing wait for evictions, and nothing waits for ever.
//
// Thread-safe. O((accesses + actions) log storages), meant for tests and for plans from files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spillway/machine/machine.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway {

/// The flaws that a plan can have.
enum class PlanFlaw : std::uint8_t {
  kOtherTrace,             ///< made for a trace of another structure
  kActionOutOfOrder,       ///< stands behind one of a later op
  kPlaceOutOfOrder,        ///< stands behind one of a later storage, or twice
  kUnknownOp,              ///< an op that the trace does not have
  kUnknownStorage,         ///< likewise
  kPlacedNowhere,          ///< begins on no tier, though the step uses it
  kPlacedUnborn,           ///< a place for what is not there when the step begins, or begins anew
  kNotAlive,               ///< an action on a storage before its creation or after its death
  kNoSuchTier,             ///< evicted to the device, or to a tier without budget
  kNotOnDevice,            ///< evicted or its copies forgotten, but neither there nor on its way
  kNotOnHost,              ///< demoted, but not there
  kAlreadyOnDevice,        ///< fetched, but there
  kEvictedForNothing,      ///< the op right behind uses it
  kLost,                   ///< needed or fetched, but dropped
  kDroppedTwice,           ///< dropped, but dropped already
  kNotRecomputable,        ///< a recomputation of an op that may not be run again
  kRecomputedTooEarly,     ///< a recomputation of an op that has not run yet
  kRecomputeInputGone,     ///< it reads what is dead, and no recomputation just before made it
  kRecomputeInputChanged,  ///< it reads what was written since it ran
  kRecomputeOfOldValue,    ///< it would bring back what was written again later
  kRecomputeForNothing,    ///< nothing of what it creates is dropped or read by a recomputation of
                           ///< the group
  kNoSuchAlternative,      ///< chosen, but not in the trace
  kChosenLate,             ///< chosen elsewhere than at op 0
  kChosenTwice,            ///< two choices for one op
  kDeviceOverfull,         ///< more than the budget
  kHostOverfull,
  kDiskOverfull,
  kWaitsForEver,   ///< for a fetch for which only later ops make room
  kDoesNotReturn,  ///< ends elsewhere than it begins
};
inline constexpr std::size_t kPlanFlawCount = 29;

/// `device-overfull`, ...
std::string_view to_string(PlanFlaw flaw);

struct PlanProblem {
  PlanFlaw flaw{};
  OpIndex op{};      ///< where; the number of ops: at the end
  std::string text;  ///< a sentence with names and numbers
};

/// The first thing wrong; nothing if the plan is right. The trace must be valid. `budgets` are
/// those to keep to, not those that the plan states.
std::optional<PlanProblem> validate(const Plan& plan, const Trace& trace, const Budgets& budgets);

}  // namespace spillway
