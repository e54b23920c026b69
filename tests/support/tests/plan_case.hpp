// SPDX-License-Identifier: Apache-2.0
// A step and a plan for it, random, that can be made smaller while something is wrong with them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "spillway/machine/machine.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::testing {

struct PlanCase {
  Trace trace;
  Plan plan;
  Machine machine;
  Budgets budgets;  ///< within which the plan is right
  std::uint32_t steps = 3;
};

/// The same for the same seed. One in three is on a machine without a host tier, as one that trains
/// on its processor. The plan just fits the device; half of the hosts, too.
PlanCase random_plan_case(std::uint32_t seed);

/// The flaw of a case, if any.
using Judgement = std::function<std::optional<std::string>(const PlanCase&)>;

/// Leaves out storages, ops, places and actions for as long as something is wrong.
PlanCase shrink(PlanCase failing, const Judgement& judge);

/// One line for each storage, op and action.
std::string describe(const PlanCase& shown);

}  // namespace spillway::testing
