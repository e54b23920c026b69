// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <map>
#include <tuple>

#include "planning_command_fixture.hpp"
#include "spillway/plan/plan_io.hpp"

namespace spillway::tools {
namespace {

using ::testing::HasSubstr;

using ExplainTest = PlanningCommandTest;

TEST_F(ExplainTest, TheOtherWaysArePriced) {
  std::map<std::string, int> priced;
  for (const char* planner : {"lru", "chain-recompute"}) {
    ASSERT_EQ(answer({"plan", trace(), "--budget", "80%", "--machine", "v100-pcie", "--disk",
                      "1TiB", "--planner", planner, "-o", path("p.json")})
                  .status,
              0);
    const std::vector<std::string> words{"explain", path("p.json"), "--top", "12"};
    const std::string text = answer(words).text;
    const Json decisions = json(words)["decisions"];
    for (const Json& decision : decisions) {
      for (const auto& [way, other] : decision["otherwise"].items()) {
        if (other["feasible"]) {
          ++priced[way];
          EXPECT_GT(other["step_ns"], 0);
        } else {
          EXPECT_TRUE(other["short"] > 0 || !other["reason"].get<std::string>().empty()) << other;
        }
      }
    }
    EXPECT_THAT(text, HasSubstr(": the step takes "));
  }
  EXPECT_GT(priced["to-disk"], 0);
  EXPECT_GT(priced["swap"], 0);
}

TEST_F(ExplainTest, WhatIsNotShownIsCounted) {
  ASSERT_EQ(
      answer({"plan", trace(), "--budget", "70%", "--planner", "lru", "-o", path("p.json")}).status,
      0);
  const std::string all = answer({"explain", path("p.json"), "--top", "1000"}).text;
  const std::string some = answer({"explain", path("p.json"), "--top", "1"}).text;
  const auto storages = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find("\nstorage ", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_THAT(all, ::testing::Not(HasSubstr("--top")));
  EXPECT_EQ(storages(some), 1U);
  EXPECT_THAT(some, HasSubstr("These are 1 of " + std::to_string(storages(all)) + " storages"));
}

constexpr TimeNs kMs = 1'000'000;

/// A bias that each of eight ops reads; a weight that ops 3 and 6 read; `kept`, made by op 0, read
/// by 2 and 5. Op 1 needs workspace, and op 3 may run another way.
class ExplainByHandTest : public PlanningCommandTest {
 protected:
  /// `op`: the duration of each.
  Trace step(TimeNs op) {
    Trace step;
    bias_ = step.add(TraceStorage{.bytes = kMiB, .persistent = true, .name = "bias"});
    weight_ = step.add(TraceStorage{.bytes = kMiB * 64, .persistent = true, .name = "weight"});
    kept_ = step.add(TraceStorage{.bytes = kMiB * 64, .name = "kept"});
    step.add(TraceStorage{.bytes = kMiB, .persistent = true, .name = "unused"});
    for (std::size_t i = 0; i < 8; ++i) {
      TraceOp row{.name = "op", .duration_ns = op, .reads = {bias_}};
      if (i == 0) row.writes = row.creates = {kept_};
      if (i == 1) row.workspace = kMiB * 64;
      if (i == 2 || i == 5) row.reads.push_back(kept_);
      if (i == 3) row.alternatives = {OpAlternative{2 * op, kMiB * 8}};
      if (i == 3 || i == 6) row.reads.push_back(weight_);
      if (i == 5) row.frees = {kept_};
      step.add(row);
    }
    return step;
  }

  std::vector<std::string> words(std::vector<PlanAction> actions, bool weight_on_host = false,
                                 TimeNs op = 10 * kMs, Bytes device = kGiB) {
    const Trace made = step(op);
    write_trace(made, path("hand.json"));
    Plan plan;
    plan.trace = path("hand.json");
    plan.machine = "v100-pcie";
    plan.structure = structure_hash(made);
    plan.budgets = Budgets{{device, kGiB, {}}};
    plan.actions = std::move(actions);
    if (weight_on_host) {
      plan.places.resize(1);
      plan.places[0].storage = weight_;
      plan.places[0].add(Tier::kHost);
    }
    write_plan(plan, path("hand-plan.json"));
    return {"explain", path("hand-plan.json")};
  }
  static Json only_decision(const std::vector<std::string>& words) {
    const Json decisions = json(words)["decisions"];
    EXPECT_EQ(decisions.size(), 1U);
    return decisions[0];
  }
  static std::vector<std::string> with(std::vector<std::string> words, const std::string& flag,
                                       const std::string& value) {
    words.insert(words.end(), {flag, value});
    return words;
  }

  StorageId bias_{0}, weight_{1}, kept_{2};
};

TEST_F(ExplainByHandTest, AWaitBringsNothingBack) {
  const Json decision = only_decision(
      words({PlanAction::evict(OpIndex{3}, kept_, Tier::kHost), PlanAction::wait(OpIndex{4}, kept_),
             PlanAction::fetch(OpIndex{5}, kept_), PlanAction::wait(OpIndex{5}, kept_)}));
  EXPECT_EQ(decision["unneeded_ns"], 20 * kMs);
}

TEST_F(ExplainByHandTest, AUseEndsAnAbsenceThoughNoFetchIsPlanned) {
  const Json decision = only_decision(words({PlanAction::evict(OpIndex{1}, kept_, Tier::kHost),
                                             PlanAction::evict(OpIndex{3}, kept_, Tier::kHost)}));
  EXPECT_EQ(decision["unneeded_ns"], 20 * kMs);
}

TEST_F(ExplainByHandTest, AnAbsenceGoesOnAcrossTheEndOfTheStep) {
  const auto explained = words(
      {PlanAction::fetch(OpIndex{2}, weight_), PlanAction::evict(OpIndex{7}, weight_, Tier::kHost)},
      true);
  EXPECT_EQ(only_decision(explained)["unneeded_ns"], 40 * kMs);
  EXPECT_THAT(answer(explained).text, HasSubstr("not needed for 40 ms of computing"));
}

TEST_F(ExplainByHandTest, WhatNoOpMakesIsNotComputedAgain) {
  const auto away =
      only_decision(words({PlanAction::evict(OpIndex{7}, weight_, Tier::kHost)}, true));
  EXPECT_FALSE(away["otherwise"].contains("recompute")) << away;
  const auto demanded = only_decision(words({PlanAction::evict(OpIndex{4}, weight_, Tier::kHost)}));
  EXPECT_FALSE(demanded["otherwise"].contains("recompute")) << demanded;
}

TEST_F(ExplainByHandTest, WhyAStorageStaysIsSaidAndWhatMovingItWouldCost) {
  const std::vector<PlanAction> moves{PlanAction::evict(OpIndex{1}, kept_, Tier::kHost),
                                      PlanAction::fetch(OpIndex{2}, kept_)};
  const auto asked = [&](const std::string& name, TimeNs op, Bytes device) {
    return with(words(moves, false, op, device), "--storage", name);
  };
  for (const auto& [name, op, device, reason] :
       {std::tuple("weight", 10 * kMs, kGiB, "nothing-binds"),
        {"weight", 10 * kMs, kMiB * 150, "others-make-room"},
        {"weight", kMs, kMiB * 150, "dear-to-move"},
        {"bias", kMs, kGiB, "always-needed"},
        {"unused", kMs, kGiB, "never-used"}}) {
    const Json stays = only_decision(asked(name, op, device));
    EXPECT_EQ(stays["kept_because"], reason) << name << device.count;
    EXPECT_TRUE(stays["actions"].empty());
    EXPECT_TRUE(stays["if_kept"]["feasible"]);
    EXPECT_EQ(stays["otherwise"].contains("to-host"), std::string(name) == "weight");
    if (std::string(name) != "weight") continue;
    EXPECT_EQ(stays["unneeded_ns"], 4 * op);
    EXPECT_TRUE(stays["otherwise"]["to-host"]["feasible"]) << stays;
  }
  EXPECT_GT(only_decision(asked("weight", kMs, kGiB))["otherwise"]["to-host"]["step_ns"], 8 * kMs);
  const std::string text = answer(asked("weight", 10 * kMs, kGiB)).text;
  EXPECT_THAT(text, HasSubstr("  stays: nothing is done with it\n  why: nothing binds"));
  EXPECT_THAT(text, HasSubstr("  if it went to the host: the step takes "));
}

TEST_F(ExplainByHandTest, OpsThatRunAnotherWayAreSaid) {
  const auto explained = words({PlanAction::choose(OpIndex{3}, 0)});
  const Json choices = json(explained)["choices"];
  ASSERT_EQ(choices.size(), 1U);
  EXPECT_EQ(choices[0]["op"], 3);
  EXPECT_EQ(choices[0]["ns"], 20 * kMs);
  EXPECT_EQ(choices[0]["workspace"], 8 * kMiB.count);
  EXPECT_EQ(choices[0]["recorded_ns"], 10 * kMs);
  EXPECT_EQ(choices[0]["if_recorded"]["step_ns"], 80 * kMs);
  const std::string text = answer(explained).text;
  EXPECT_THAT(text, HasSubstr("alternative 0: 20 ms, workspace 8 MiB\n"));
  EXPECT_THAT(text, HasSubstr("  if it ran as recorded: the step takes 80 ms, 10 ms less\n"));
  EXPECT_EQ(json(with(explained, "--op", "3"))["choices"].size(), 1U);
  EXPECT_EQ(json(with(explained, "--op", "4"))["choices"].size(), 0U);
  EXPECT_EQ(json(with(explained, "--storage", "bias"))["choices"].size(), 0U);
}

}  // namespace
}  // namespace spillway::tools
