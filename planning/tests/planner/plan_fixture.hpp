// SPDX-License-Identifier: Apache-2.0
// Gives tests their plans: each passes the naive validator and the simulator's own accounting
// before the test sees it.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <variant>

#include "cost/floor.hpp"
#include "spillway/plan/validator.hpp"
#include "spillway/planning/bound/lower_bound.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/planning/sim/simulator.hpp"

namespace spillway::planning {

struct CheckedPlan {
  Plan plan;
  SimulationReport report;
};

class PlanFixture : public ::testing::Test {
 protected:
  /// Budgets with `times` the floor on the device and plenty on the host.
  static Budgets budgets(const Trace& trace, const Machine& machine, double times,
                         Bytes host = kGiB * 1024) {
    Budgets all;
    all[Tier::kDevice] = Bytes{std::uint64_t{1} << 50};
    all[Tier::kHost] = host;
    const StepModel model(Problem{trace, machine, all});
    all[Tier::kDevice] =
        Bytes{static_cast<std::uint64_t>(times * static_cast<double>(floor_of(model).bytes))};
    return all;
  }

  static CheckedPlan check(const Problem& problem, const Plan& plan) {
    const auto flaw = validate(plan, problem.trace, problem.budgets);
    EXPECT_FALSE(flaw) << plan.planner << ": " << (flaw ? flaw->text : "");
    EXPECT_EQ(plan.signatures, known_signatures(problem.trace)) << plan.planner;
    SimulationOptions options;
    options.steps = 4;  // beyond what is left over from the beginning
    const SimulationOutcome outcome = simulate(problem, plan, options);
    if (const auto* failure = std::get_if<SimulationFailure>(&outcome)) {
      ADD_FAILURE() << plan.planner << ": " << failure->reason;
      return {plan, {}};
    }
    const auto& report = std::get<SimulationReport>(outcome);
    for (const Tier tier : kTiers) {
      EXPECT_LE(report.peak[index_of(tier)].bytes, problem.budgets[tier]) << plan.planner;
    }
    const LowerBound bound = lower_bound(StepModel(problem));
    EXPECT_GE(report.step_ns, bound.step_ns) << plan.planner << " beats the bound";
    return {plan, report};
  }

  /// A clock that counts how often it is asked: searches take the same course on every machine,
  /// and a short one.
  static PlanningContext short_search() {
    PlanningContext context;
    context.now = [looks = TimeNs{0}]() mutable { return looks++; };
    context.time_limit_ns = 150;
    return context;
  }

  static std::optional<CheckedPlan> make(const Planner& planner, const Problem& problem,
                                         const Options& options,
                                         const PlanningContext& context = short_search()) {
    const PlanOutcome outcome = planner.plan(problem, options, context);
    const auto* plan = std::get_if<Plan>(&outcome);
    if (plan == nullptr) return std::nullopt;
    return check(problem, *plan);
  }
  static std::optional<CheckedPlan> make(const Planner& planner, const Problem& problem) {
    return make(planner, problem, Options(planner.options()));
  }
};

}  // namespace spillway::planning
