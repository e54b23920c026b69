// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>

#include "machine/machine_lookup.hpp"
#include "planning_command_fixture.hpp"

namespace spillway::tools {
namespace {

using ::testing::HasSubstr;

using WhatIfTest = PlanningCommandTest;

TEST_F(WhatIfTest, TheSmallestBudgetForASlowdownKeepsIt) {
  Trace quiet = spillway::testing::layered_step(6);
  quiet.workspace_known = false;
  write_trace(quiet, path("quiet.json"));
  for (const std::string& file : {trace(), path("quiet.json")}) {
    for (const auto& [percent, slowdown] : {std::pair("0%", 0.0), {"5%", 0.05}, {"20%", 0.2}}) {
      const std::vector<std::string> common{"--planner", "lru", "--machine", "v100-pcie", file};
      const auto ask = [&](std::vector<std::string> words) {
        words.insert(words.end(), common.begin(), common.end());
        return json(words);
      };
      const Json smallest = ask({"what-if", "--slowdown", percent});
      const std::uint64_t budget = smallest["smallest_budget"];
      const std::uint64_t margin = smallest["workspace_margin"];
      EXPECT_EQ(margin > 0, file != trace());
      EXPECT_LE(budget, smallest["peak"].get<std::uint64_t>() + margin);
      const Json planned = ask({"plan", "--budget", std::to_string(budget) + "B"});
      ASSERT_TRUE(planned.contains("step_ns")) << file << percent;
      EXPECT_LE(planned["step_ns"].get<double>(),
                planned["compute_ns"].get<double>() * (1 + slowdown))
          << file << percent;
    }
  }
}

TEST_F(WhatIfTest, WhatIfSaysWhatItLeavesFreeAndWhatTheMachineLacks) {
  Trace quiet = spillway::testing::layered_step(6);
  quiet.workspace_known = false;
  for (Bytes& bytes : quiet.storages.bytes) bytes.count *= 200;
  write_trace(quiet, path("quiet.json"));
  const std::vector<std::string> words{
      "what-if", path("quiet.json"), "--slowdown", "0%", "--planner", "lru", "--machine", "m40"};
  const Json large = json(words);
  EXPECT_GT(large["smallest_budget"], 12 * kGiB.count);
  EXPECT_FALSE(large["machine_has_it"]);
  const Answer told = answer(words);
  EXPECT_EQ(told.status, 0);
  EXPECT_THAT(told.text, HasSubstr("without workspace"));
  EXPECT_THAT(told.text, HasSubstr("\nleft free     "));
  EXPECT_THAT(told.text, HasSubstr("more than the 12 GiB of m40"));
  const Json small = json({"what-if", trace(), "--slowdown", "0%", "--planner", "lru"});
  EXPECT_TRUE(small["machine_has_it"]);
  EXPECT_THAT(answer({"what-if", trace(), "--slowdown", "0%", "--planner", "lru"}).text,
              ::testing::Not(HasSubstr("more than")));

  for (const Json& row : json({"what-if", path("quiet.json"), "--machines", "--planner", "lru"})) {
    EXPECT_EQ(row["workspace_margin"], large["workspace_margin"]);
  }
  const Answer rows = answer({"what-if", path("quiet.json"), trace(), "--planner", "lru"});
  EXPECT_THAT(rows.text, HasSubstr("left free for workspace"));
  EXPECT_THAT(rows.text, HasSubstr("without workspace"));
  EXPECT_THAT(answer({"what-if", trace(), "--machines", "--planner", "lru"}).text,
              ::testing::Not(HasSubstr("workspace")));
}

// lms swaps by the distance of uses, whatever the budget.
TEST_F(WhatIfTest, ASlowdownThatNoBudgetGivesIsSaid) {
  const std::vector<std::string> words{"what-if",   trace(),     "--slowdown",  "0%",
                                       "--planner", "lms",       "--tune",      "off",
                                       "--machine", "v100-pcie", "--sync-mode", "3"};
  const Answer told = answer(words);
  EXPECT_EQ(told.status, kNoPlanFits);
  EXPECT_THAT(told.text, HasSubstr("No budget"));
  EXPECT_THAT(told.text, ::testing::Not(HasSubstr("--budget ")));
  EXPECT_EQ(json(words)["smallest_budget"], nullptr);
}

TEST_F(WhatIfTest, WhatIfAnswersItsThreeQuestions) {
  const Json smallest =
      json({"what-if", trace(), "--slowdown", "20%", "--planner", "lru", "--machine", "v100-pcie"});
  EXPECT_LT(smallest["smallest_budget"], smallest["peak"]);
  const Json machines = json({"what-if", trace(), "--machines", "--planner", "lru"});
  EXPECT_GE(machines.size(), 10U);
  const Json traces = json({"what-if", trace(), trace(), "--planner", "lru"});
  EXPECT_EQ(traces.size(), 2U);
}

TEST_F(WhatIfTest, OnEveryMachineABudgetIsAtMostItsMemory) {
  for (const Json& row :
       json({"what-if", trace(), "--machines", "--planner", "lru", "--budget", "20GiB"})) {
    const Machine machine = find_machine(row["machine"]);
    EXPECT_EQ(row["budget_bytes"],
              std::min(20 * kGiB.count, capacities(machine)[Tier::kDevice].count));
  }
}

}  // namespace
}  // namespace spillway::tools
