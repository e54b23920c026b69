// SPDX-License-Identifier: Apache-2.0
// A plan that uses everything a plan may, and what is said when it is broken in one place.
#include "spillway/plan/validator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "spillway/testing/small_steps.hpp"

namespace spillway {
namespace {

using spillway::testing::StepBuilder;
using ::testing::HasSubstr;

constexpr OpIndex at(std::uint64_t op) { return OpIndex{op}; }

//   op             0     1     2     3     4     5     6     7     (8: end)
//   w    10        r     .     .     .     .     .     r     r w   persistent; begins on the host
//   v    20        .     .     .     .     .     .     .     .     persistent; lies on the disk
//   x     5        r     f                                         an input
//   a    40        c     r     .     .     .     r f                evicted to host, demoted
//   b    30              c     r     .     r f                      dropped and recomputed
//   c    50                    c     r f
//   g    15                                      c     w            goes on as h
//   h    15        .     f
class ValidatorTest : public ::testing::Test {
 protected:
  ValidatorTest() {
    StepBuilder step;
    w_ = step.persistent(10, "w");
    v_ = step.persistent(20, "v");
    x_ = step.temporary(5, "x");
    a_ = step.temporary(40, "a");
    b_ = step.temporary(30, "b");
    c_ = step.temporary(50, "c");
    g_ = step.temporary(15, "g");
    h_ = step.temporary(15, "h");
    step.op(1, {.creates = {a_}, .reads = {w_, x_}, .recomputable = true});
    step.op(1, {.creates = {b_}, .reads = {a_}, .frees = {x_, h_}, .recomputable = true});
    step.op(1, {.creates = {c_}, .reads = {b_}});
    step.op(1, {.reads = {c_}, .frees = {c_}});
    step.op(1, {.reads = {b_}, .frees = {b_}});
    step.op(1, {.creates = {g_}, .reads = {a_}, .frees = {a_}});
    step.op(1, {.reads = {w_}, .writes = {g_}, .workspace = 7});
    step.op(1, {.reads = {w_}, .writes = {w_}});
    step.trace().storages.continues[to_value(g_)] = h_;
    step.trace().ops.alternatives = {};
    for (std::uint64_t op = 0; op < 8; ++op) {
      const OpAlternative small{.duration_ns = 2, .workspace = {3}};
      step.trace().ops.alternatives.append(
          std::span(&small, op == 6 ? std::size_t{1} : std::size_t{0}));
    }
    trace_ = step.build();
    budgets_ = {{Bytes{110}, Bytes{60}, Bytes{60}}};
    plan_.structure = structure_hash(trace_);
    plan_.places = {{.storage = w_, .tiers = 0b010},
                    {.storage = v_, .tiers = 0b100},
                    {.storage = h_, .tiers = 0b010}};
    plan_.actions = {
        PlanAction::choose(at(6), 0),
        PlanAction::fetch(at(0), w_),
        PlanAction::forget(at(0), w_),
        PlanAction::evict(at(1), w_, Tier::kHost),
        PlanAction::evict(at(2), a_, Tier::kHost),
        PlanAction::wait(at(2), a_),
        PlanAction::drop(at(3), b_),
        PlanAction::demote(at(3), a_),
        PlanAction::fetch(at(4), a_),
        PlanAction::recompute(at(4), at(1)),
        PlanAction::fetch(at(6), w_),
        PlanAction::evict(at(8), w_, Tier::kHost),
        PlanAction::evict(at(8), g_, Tier::kHost),
    };
  }

  PlanFlaw flaw_of(const std::function<void(Plan&)>& breaking, Budgets budgets,
                   const Trace& trace) const {
    Plan broken = plan_;
    breaking(broken);
    const auto problem = validate(broken, trace, budgets);
    EXPECT_TRUE(problem) << "a broken plan was accepted";
    return problem ? problem->flaw : PlanFlaw::kOtherTrace;
  }
  PlanFlaw flaw_of(const std::function<void(Plan&)>& breaking) const {
    return flaw_of(breaking, budgets_, trace_);
  }
  static void insert(Plan& plan, const PlanAction& action) {
    const auto place =
        std::upper_bound(plan.actions.begin(), plan.actions.end(), action,
                         [](const PlanAction& a, const PlanAction& b) { return a.at < b.at; });
    plan.actions.insert(place, action);
  }
  static PlanAction& find(Plan& plan, PlanActionKind kind) {
    return *std::find_if(plan.actions.begin(), plan.actions.end(),
                         [&](const PlanAction& action) { return action.kind == kind; });
  }
  static void remove(Plan& plan, const PlanAction& action) { std::erase(plan.actions, action); }

  StorageId w_{}, v_{}, x_{}, a_{}, b_{}, c_{}, g_{}, h_{};
  Trace trace_;
  Budgets budgets_;
  Plan plan_;
};

TEST_F(ValidatorTest, TheWholePlanIsRight) {
  const auto problem = validate(plan_, trace_, budgets_);
  EXPECT_FALSE(problem) << problem->text;
}

TEST_F(ValidatorTest, FlawsHaveDifferentWords) {
  std::set<std::string_view> words;
  for (std::size_t i = 0; i < kPlanFlawCount; ++i) {
    words.insert(to_string(static_cast<PlanFlaw>(i)));
  }
  EXPECT_EQ(words.size(), kPlanFlawCount);
}

TEST_F(ValidatorTest, TheFormIsChecked) {
  EXPECT_EQ(flaw_of([](Plan& p) { ++p.structure; }), PlanFlaw::kOtherTrace);
  EXPECT_EQ(flaw_of([](Plan& p) {
              p.signatures = {1, 2};
            }),
            PlanFlaw::kOtherTrace)
      << "the trace has more ops";
  EXPECT_EQ(flaw_of([](Plan& p) { std::swap(p.actions[1], p.actions[4]); }),
            PlanFlaw::kActionOutOfOrder);
  EXPECT_EQ(flaw_of([](Plan& p) { std::swap(p.places[0], p.places[1]); }),
            PlanFlaw::kPlaceOutOfOrder);
  EXPECT_EQ(flaw_of([](Plan& p) { p.places.insert(p.places.begin(), p.places[0]); }),
            PlanFlaw::kPlaceOutOfOrder);
  EXPECT_EQ(flaw_of([](Plan& p) { p.actions.back().at = at(9); }), PlanFlaw::kUnknownOp);
  EXPECT_EQ(flaw_of([](Plan& p) { find(p, PlanActionKind::kRecompute).op = at(8); }),
            PlanFlaw::kUnknownOp);
  EXPECT_EQ(flaw_of([](Plan& p) { p.actions.back().storage = StorageId{8}; }),
            PlanFlaw::kUnknownStorage);
  EXPECT_EQ(flaw_of([](Plan& p) { p.places.back().storage = StorageId{99}; }),
            PlanFlaw::kUnknownStorage);
  EXPECT_EQ(flaw_of([](Plan& p) { p.places[1].tiers = 0; }), PlanFlaw::kPlacedNowhere);
}

TEST_F(ValidatorTest, OnlyWhatIsLeftOverHasAPlace) {
  EXPECT_EQ(flaw_of([&](Plan& p) { p.places[2].storage = g_; }), PlanFlaw::kPlacedUnborn);
  EXPECT_EQ(flaw_of([&](Plan& p) { p.places[1].storage = x_; }), PlanFlaw::kPlacedUnborn)
      << "an input begins anew";
}

TEST_F(ValidatorTest, ActionsFitTheStatesOfTheirStorages) {
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::wait(at(1), c_)); }), PlanFlaw::kNotAlive);
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::drop(at(5), c_)); }), PlanFlaw::kNotAlive);
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::evict(at(3), w_, Tier::kHost)); }),
            PlanFlaw::kNotOnDevice);
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::forget(at(3), w_)); }),
            PlanFlaw::kNotOnDevice);
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::demote(at(6), w_)); }),
            PlanFlaw::kNotOnHost)
      << "it was just fetched";
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::fetch(at(1), a_)); }),
            PlanFlaw::kAlreadyOnDevice);
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::fetch(at(6), w_)); }),
            PlanFlaw::kAlreadyOnDevice)
      << "twice";
  EXPECT_EQ(flaw_of([](Plan& p) { find(p, PlanActionKind::kEvict).tier = Tier::kDevice; }),
            PlanFlaw::kNoSuchTier);
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::evict(at(1), a_, Tier::kHost)); }),
            PlanFlaw::kEvictedForNothing);
}

TEST_F(ValidatorTest, ATierWithoutBudgetIsNotThere) {
  Budgets without_disk = budgets_;
  without_disk[Tier::kDisk] = {};
  const auto keep_v_on_host = [](Plan& p) { p.places[1].tiers = 0b001; };
  EXPECT_EQ(flaw_of(keep_v_on_host, without_disk, trace_), PlanFlaw::kNoSuchTier);
}

TEST_F(ValidatorTest, WhatIsDroppedMustComeBackBeforeItsNextUse) {
  const PlanAction recompute = PlanAction::recompute(at(4), at(1));
  EXPECT_EQ(flaw_of([&](Plan& p) { remove(p, recompute); }), PlanFlaw::kLost);
  EXPECT_EQ(flaw_of([&](Plan& p) {
              remove(p, recompute);
              insert(p, PlanAction::fetch(at(4), b_));
            }),
            PlanFlaw::kLost);
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::drop(at(3), b_)); }),
            PlanFlaw::kDroppedTwice);
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::drop(at(6), g_)); }), PlanFlaw::kLost)
      << "a write is no way back";
}

TEST_F(ValidatorTest, RecomputationsNeedWhatTheOpHad) {
  const auto recompute_of = [](std::uint64_t op) {
    return [op](Plan& p) { find(p, PlanActionKind::kRecompute).op = at(op); };
  };
  EXPECT_EQ(flaw_of(recompute_of(2)), PlanFlaw::kNotRecomputable);
  EXPECT_EQ(flaw_of(recompute_of(0)), PlanFlaw::kRecomputeInputGone) << "the input x is dead";
  EXPECT_EQ(flaw_of([](Plan& p) { insert(p, PlanAction::recompute(at(1), at(1))); }),
            PlanFlaw::kRecomputedTooEarly);
  EXPECT_EQ(flaw_of([](Plan& p) { insert(p, PlanAction::recompute(at(4), at(1))); }),
            PlanFlaw::kRecomputeForNothing);
}

TEST_F(ValidatorTest, ARecomputationMustNotSeeLaterValues) {
  StepBuilder step;
  const StorageId x = step.persistent(5, "x");
  const StorageId a = step.temporary(40, "a");
  step.op(1, {.creates = {a}, .reads = {x}, .recomputable = true});
  step.op(1, {.writes = {x}});
  step.op(1, {.reads = {a}, .frees = {a}});
  const Trace later_input = step.build();
  Plan plan;
  plan.structure = structure_hash(later_input);
  plan.actions = {PlanAction::drop(at(1), a), PlanAction::recompute(at(2), at(0))};
  auto problem = validate(plan, later_input, budgets_);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->flaw, PlanFlaw::kRecomputeInputChanged);

  StepBuilder other;
  const StorageId y = other.temporary(40, "y");
  other.op(1, {.creates = {y}, .recomputable = true});
  other.op(1, {.writes = {y}});
  other.op(1, {});
  other.op(1, {.reads = {y}, .frees = {y}});
  const Trace later_output = other.build();
  plan.structure = structure_hash(later_output);
  plan.actions = {PlanAction::drop(at(2), y), PlanAction::recompute(at(3), at(0))};
  problem = validate(plan, later_output, budgets_);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->flaw, PlanFlaw::kRecomputeOfOldValue);
}

TEST_F(ValidatorTest, AlternativesAreThoseOfTheTrace) {
  EXPECT_EQ(flaw_of([](Plan& p) { p.actions[0].alternative = 1; }), PlanFlaw::kNoSuchAlternative);
  EXPECT_EQ(flaw_of([](Plan& p) { p.actions[0].op = at(5); }), PlanFlaw::kNoSuchAlternative);
  EXPECT_EQ(flaw_of([](Plan& p) { p.actions.insert(p.actions.begin(), p.actions[0]); }),
            PlanFlaw::kChosenTwice);
  EXPECT_EQ(flaw_of([](Plan& p) {
              PlanAction late = PlanAction::choose(at(6), 0);
              late.at = at(2);
              remove(p, PlanAction::choose(at(6), 0));
              insert(p, late);
            }),
            PlanFlaw::kChosenLate);
}

TEST_F(ValidatorTest, NoTierHoldsMoreThanItsBudget) {
  EXPECT_EQ(flaw_of([&](Plan& p) {
              remove(p, PlanAction::evict(at(2), a_, Tier::kHost));
              remove(p, PlanAction::wait(at(2), a_));
              remove(p, PlanAction::demote(at(3), a_));
              remove(p, PlanAction::fetch(at(4), a_));
            }),
            PlanFlaw::kDeviceOverfull);
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::evict(at(3), c_, Tier::kHost)); }),
            PlanFlaw::kEvictedForNothing);
  Budgets small_host = budgets_;
  small_host[Tier::kHost] = Bytes{49};
  EXPECT_EQ(flaw_of([](Plan&) {}, small_host, trace_), PlanFlaw::kHostOverfull);
  Budgets small_disk = budgets_;
  small_disk[Tier::kDisk] = Bytes{59};
  EXPECT_EQ(flaw_of([](Plan&) {}, small_disk, trace_), PlanFlaw::kDiskOverfull);
  Budgets small_device = budgets_;
  small_device[Tier::kDevice] = Bytes{79};
  EXPECT_EQ(flaw_of([](Plan&) {}, small_device, trace_), PlanFlaw::kDeviceOverfull);
}

TEST_F(ValidatorTest, AWaitForWhatHasNoRoomIsForEver) {
  Budgets tight = budgets_;
  tight[Tier::kDevice] = Bytes{80};
  // At op 3 the device holds b and c, 80 in all, and a cannot come in before c is freed.
  EXPECT_EQ(flaw_of(
                [&](Plan& p) {
                  remove(p, PlanAction::drop(at(3), b_));
                  remove(p, PlanAction::demote(at(3), a_));
                  insert(p, PlanAction::fetch(at(3), a_));
                  insert(p, PlanAction::wait(at(3), a_));
                },
                tight, trace_),
            PlanFlaw::kWaitsForEver);
}

// Device 100. The fetch of `large`, for which there is no room, is taken back before op 0: `small`
// comes in at once, and op 0 has 40 left.
TEST_F(ValidatorTest, AFetchThatIsTakenBackLetsInTheOneBehindIt) {
  StepBuilder step;
  const StorageId kept = step.persistent(50, "kept");
  const StorageId large = step.persistent(60, "large");
  const StorageId small = step.persistent(10, "small");
  const StorageId made = step.temporary(45, "made");
  step.op(1, {.creates = {made}, .reads = {kept}, .frees = {made}});
  const Trace trace = step.build();
  const Budgets budgets{{Bytes{100}, Bytes{100}, Bytes{100}}};
  Plan plan;
  plan.structure = structure_hash(trace);
  plan.places = {{.storage = large, .tiers = 0b010}, {.storage = small, .tiers = 0b010}};
  for (const PlanAction& taken_back :
       {PlanAction::evict(at(0), large, Tier::kHost), PlanAction::demote(at(0), large)}) {
    plan.actions = {PlanAction::fetch(at(0), large), PlanAction::fetch(at(0), small), taken_back,
                    PlanAction::evict(at(1), small, Tier::kHost)};
    const auto problem = validate(plan, trace, budgets);
    ASSERT_TRUE(problem) << to_string(taken_back.kind);
    EXPECT_EQ(problem->flaw, PlanFlaw::kDeviceOverfull) << problem->text;
    EXPECT_THAT(problem->text, HasSubstr("short 5"));
  }
}

// Device 100. The fetch of `small` stands behind that of `large`, for which there is no room, until
// the recomputation brings `small` in, which forgets its copy on the host: it ends as it began.
TEST_F(ValidatorTest, WhatARecomputationBringsInForgetsItsCopiesAsAnyFetchDoes) {
  StepBuilder step;
  const StorageId kept = step.persistent(50, "kept");
  const StorageId large = step.persistent(60, "large");
  const StorageId small = step.persistent(10, "small");
  const StorageId made = step.temporary(5, "made");
  step.op(1, {.creates = {made}, .reads = {small}, .recomputable = true});
  step.op(1, {.reads = {kept}});
  step.op(1, {.reads = {made}, .frees = {made}});
  const Trace trace = step.build();
  Plan plan;
  plan.structure = structure_hash(trace);
  plan.places = {{.storage = large, .tiers = 0b010}};
  plan.actions = {PlanAction::evict(at(1), small, Tier::kHost),
                  PlanAction::drop(at(1), made),
                  PlanAction::fetch(at(2), large),
                  PlanAction::fetch(at(2), small),
                  PlanAction::forget(at(2), small),
                  PlanAction::recompute(at(2), at(0)),
                  PlanAction::evict(at(2), large, Tier::kHost)};
  const auto problem = validate(plan, trace, {{Bytes{100}, Bytes{100}, Bytes{}}});
  EXPECT_FALSE(problem) << problem->text;
}

TEST_F(ValidatorTest, AStepEndsAsItBegins) {
  const auto last = [&](StorageId storage) {
    return PlanAction::evict(at(8), storage, Tier::kHost);
  };
  EXPECT_EQ(flaw_of([&](Plan& p) { remove(p, last(w_)); }), PlanFlaw::kDoesNotReturn);
  EXPECT_EQ(flaw_of([&](Plan& p) { remove(p, last(g_)); }), PlanFlaw::kDoesNotReturn)
      << "it goes on as h, which begins on the host";
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::fetch(at(7), v_)); }),
            PlanFlaw::kDoesNotReturn);
  EXPECT_EQ(flaw_of([&](Plan& p) { insert(p, PlanAction::drop(at(8), v_)); }),
            PlanFlaw::kDoesNotReturn);
}

TEST_F(ValidatorTest, TheReasonNamesPlaceAndNumbers) {
  Budgets small_device = budgets_;
  small_device[Tier::kDevice] = Bytes{79};
  const auto problem = validate(plan_, trace_, small_device);
  ASSERT_TRUE(problem);
  EXPECT_THAT(problem->text, HasSubstr("short "));
  EXPECT_EQ(problem->op, at(2)) << problem->text;
  Plan broken = plan_;
  insert(broken, PlanAction::forget(at(3), w_));
  EXPECT_THAT(validate(broken, trace_, budgets_)->text, HasSubstr("storage 0 (w)"));
}

}  // namespace
}  // namespace spillway
