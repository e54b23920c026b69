// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <map>

#include "planning_command_fixture.hpp"

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
          EXPECT_TRUE(other["short"] > 0 || other["reason"] != "") << other;
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
    return count + 1;  // the first line
  };
  EXPECT_THAT(all, ::testing::Not(HasSubstr("--top")));
  EXPECT_EQ(storages(some), 1U);
  EXPECT_THAT(some, HasSubstr("These are 1 of " + std::to_string(storages(all)) + " storages"));
}

}  // namespace
}  // namespace spillway::tools
