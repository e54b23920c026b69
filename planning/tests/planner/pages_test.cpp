// SPDX-License-Identifier: Apache-2.0
// Every planner has a page in docs/planners that lists its options as they are, and every page is
// of a planner.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "spillway/planning/registry.hpp"

namespace spillway::planning {
namespace {

const std::filesystem::path kPages =
    std::filesystem::path(SPILLWAY_SOURCE_TREE) / "docs" / "planners";

std::string page_of(const Planner& planner) {
  std::ifstream file(kPages / (std::string(planner.name()) + ".md"));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(PagesTest, EveryPlannerHasAPageWithAllItsOptions) {
  for (const Planner* planner : planners()) {
    const std::string page = page_of(*planner);
    const std::string name(planner->name());
    EXPECT_NE(page.find("\n# " + name + "\n"), std::string::npos) << name << " has no page";
    for (const OptionField& field : planner->options()) {
      const std::string row = "\n| `" + std::string(field.name) + "` | " +
                              to_string(field.fallback) + " | " + std::string(field.meaning) +
                              " |\n";
      EXPECT_NE(page.find(row), std::string::npos) << name << ".md lacks" << row;
    }
  }
}

// hybrid renders no system: its page says what it takes from which, and where it departs.
TEST(PagesTest, EveryPageOfASystemSaysWhatItDoesWhatOursDoesAndWhereTheyDiffer) {
  for (const Planner* planner : planners()) {
    const std::string page = page_of(*planner);
    const auto has = [&](const char* part) { return page.find(part) != std::string::npos; };
    if (planner->name() == "hybrid") {
      EXPECT_TRUE(has("\n## What it takes from where, and where it departs\n"));
      continue;
    }
    EXPECT_TRUE(has("\n**The paper.**") || has("\n**The system.**")) << planner->name();
    EXPECT_TRUE(has("\n**Ours.**")) << planner->name();
    EXPECT_TRUE(has("\n**Where they differ.**")) << planner->name();
  }
}

TEST(PagesTest, NoPageListsAnOptionThatDoesNotExist) {
  for (const Planner* planner : planners()) {
    const std::string page = page_of(*planner);
    std::size_t rows = 0;
    for (std::size_t at = page.find("\n| `"); at != std::string::npos;
         at = page.find("\n| `", at + 1)) {
      ++rows;
    }
    EXPECT_EQ(rows, planner->options().size()) << planner->name();
  }
}

TEST(PagesTest, EveryPageIsOfAPlanner) {
  for (const auto& entry : std::filesystem::directory_iterator(kPages)) {
    const std::string name = entry.path().stem().string();
    if (name == "bound") continue;  // of the lower bound
    EXPECT_NO_THROW((void)planner_named(name)) << entry.path();
  }
}

}  // namespace
}  // namespace spillway::planning
