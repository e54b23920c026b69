// SPDX-License-Identifier: Apache-2.0
#include "explain/plan_variants.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>

#include "spillway/plan/validator.hpp"
#include "spillway/planning/sim/simulator.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::tools {
namespace {

using ::testing::ElementsAre;

constexpr TimeNs kMs = 1'000'000;
constexpr Bytes kSize = kMiB * 64;

/// A weight; ops that make `a` of it and `b` of `a`; busy ops; one that needs both again.
class PlanVariantsTest : public ::testing::Test {
 protected:
  PlanVariantsTest() : machine_(testing::plain_machine()) {
    for (auto& link : machine_.links) link = Link{12e9, 10'000, ""};
    budgets_ = Budgets{{kGiB, kGiB, kGiB}};
    weight_ = trace_.add(TraceStorage{.bytes = kMiB, .persistent = true});
    a_ = trace_.add(TraceStorage{.bytes = kSize});
    b_ = trace_.add(TraceStorage{.bytes = kSize});
    trace_.add(TraceOp{.name = "first",
                       .duration_ns = kMs,
                       .recomputable = true,
                       .reads = {weight_},
                       .writes = {a_},
                       .creates = {a_}});
    trace_.add(TraceOp{.name = "second",
                       .duration_ns = 2 * kMs,
                       .recomputable = true,
                       .reads = {a_},
                       .writes = {b_},
                       .creates = {b_},
                       .frees = {a_}});
    for (int i = 0; i < 10; ++i) {
      trace_.add(TraceOp{.name = "busy", .duration_ns = kMs, .reads = {weight_}});
    }
    trace_.add(TraceOp{.name = "back", .duration_ns = kMs, .reads = {b_}, .frees = {b_}});
  }

  static constexpr OpIndex kAfter{2};
  static constexpr OpIndex kBack{12};

  [[nodiscard]] planning::Problem problem() const { return {trace_, machine_, budgets_}; }

  [[nodiscard]] Plan plan(std::vector<PlanAction> actions) const {
    Plan plan;
    plan.structure = structure_hash(trace_);
    plan.budgets = budgets_;
    plan.actions = std::move(actions);
    return plan;
  }

  [[nodiscard]] std::map<std::string, Plan> others(const Plan& plan) const {
    std::map<std::string, Plan> found;
    Decision decision{b_, plan.actions, {}};
    std::erase_if(decision.actions, [](const PlanAction& action) {
      return action.kind == PlanActionKind::kRecompute && action.op != OpIndex{1};
    });
    for (PlanVariant& variant : plan_variants(problem(), plan, decision)) {
      EXPECT_EQ(validate(variant.plan, trace_, budgets_), std::nullopt) << to_string(variant.way);
      found.emplace(to_string(variant.way), std::move(variant.plan));
    }
    return found;
  }

  [[nodiscard]] TimeNs step_of(const Plan& plan) const {
    const auto outcome = planning::simulate(problem(), plan);
    const auto* report = std::get_if<planning::SimulationReport>(&outcome);
    return report == nullptr ? -1 : report->step_ns;
  }

  Trace trace_;
  Machine machine_;
  Budgets budgets_{};
  StorageId weight_{}, a_{}, b_{};
};

TEST_F(PlanVariantsTest, WhatIsSwappedMayStayGoElsewhereOrBeComputedAgain) {
  const Plan made =
      plan({PlanAction::evict(kAfter, b_, Tier::kHost), PlanAction::fetch(OpIndex{5}, b_)});
  auto found = others(made);
  EXPECT_TRUE(found["left-alone"].actions.empty());
  EXPECT_THAT(found["to-disk"].actions, ElementsAre(PlanAction::evict(kAfter, b_, Tier::kDisk),
                                                    PlanAction::fetch(OpIndex{5}, b_)));
  // `a` is dead by then, so it is made again too, and just before the use.
  EXPECT_THAT(found["recompute"].actions,
              ElementsAre(PlanAction::drop(kAfter, b_), PlanAction::recompute(kBack, OpIndex{0}),
                          PlanAction::recompute(kBack, OpIndex{1})));
  EXPECT_FALSE(found.contains("to-host") || found.contains("swap"));
  EXPECT_EQ(step_of(found["recompute"]), step_of(found["left-alone"]) + 3 * kMs);
}

TEST_F(PlanVariantsTest, WhatGoesToTheDiskMayGoToTheHost) {
  const Plan made =
      plan({PlanAction::evict(kAfter, b_, Tier::kDisk), PlanAction::fetch(OpIndex{5}, b_)});
  auto found = others(made);
  EXPECT_THAT(found["to-host"].actions, ElementsAre(PlanAction::evict(kAfter, b_, Tier::kHost),
                                                    PlanAction::fetch(OpIndex{5}, b_)));
  EXPECT_FALSE(found.contains("to-disk"));
}

TEST_F(PlanVariantsTest, WhatIsComputedAgainMayBeSwapped) {
  const Plan made = plan({PlanAction::drop(kAfter, b_), PlanAction::recompute(kBack, OpIndex{0}),
                          PlanAction::recompute(kBack, OpIndex{1})});
  auto found = others(plan(made.actions));
  // 64 MiB take 5.6 ms at 12 GB/s, which is 6 ops. The recomputation of `a` goes too.
  EXPECT_THAT(found["swap"].actions, ElementsAre(PlanAction::evict(kAfter, b_, Tier::kHost),
                                                 PlanAction::fetch(OpIndex{6}, b_)));
  EXPECT_EQ(step_of(found["swap"]), step_of(made) - 3 * kMs);
  const auto variants = plan_variants(
      problem(), made, {b_, {made.actions[0], PlanAction::recompute(kBack, OpIndex{1})}, {}});
  EXPECT_THAT(variants.back().plan.actions, ElementsAre(PlanAction::evict(kAfter, b_, Tier::kHost),
                                                        PlanAction::fetch(kBack, b_)));
  EXPECT_FALSE(found.contains("recompute"));
}

TEST_F(PlanVariantsTest, ATierWithoutBudgetAndAnOpThatCannotRunAgainAreNoWay) {
  budgets_[Tier::kDisk] = {};
  trace_.ops.recomputable[0] = 0;
  const Plan made =
      plan({PlanAction::evict(kAfter, b_, Tier::kHost), PlanAction::fetch(OpIndex{5}, b_)});
  EXPECT_EQ(others(made).size(), 1U);
}

TEST_F(PlanVariantsTest, WhatWasChangedSinceIsNotComputedAgain) {
  const Plan made =
      plan({PlanAction::evict(OpIndex{5}, b_, Tier::kHost), PlanAction::fetch(OpIndex{7}, b_)});
  EXPECT_TRUE(others(made).contains("recompute"));
  StorageLists writes;
  for (std::size_t op = 0; op < trace_.ops.size(); ++op) {
    const auto row = trace_.ops.writes[OpIndex{op}];
    std::vector<StorageId> storages(row.begin(), row.end());
    if (op == 3) storages.push_back(b_);
    writes.append(storages);
  }
  trace_.ops.writes = writes;
  EXPECT_EQ(validate(trace_), std::nullopt);
  Plan changed = made;
  changed.structure = structure_hash(trace_);
  EXPECT_FALSE(others(changed).contains("recompute"));
}

}  // namespace
}  // namespace spillway::tools
