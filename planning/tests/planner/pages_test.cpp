// SPDX-License-Identifier: Apache-2.0
// docs/planners has a page for hybrid and a section for each other planner, with the options as
// they are, and none besides.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "spillway/planning/registry.hpp"

namespace spillway::planning {
namespace {

std::string page(const std::string& name) {
  std::ifstream file(std::filesystem::path(SPILLWAY_SOURCE_TREE) / "docs" / "planners" / name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string pages_of_systems() { return page("README.md"); }

/// Empty if there is none.
std::string description_of(const Planner& planner) {
  if (planner.name() == "hybrid") return page("hybrid.md");
  const std::string text = pages_of_systems();
  const std::size_t begin = text.find("\n## " + std::string(planner.name()) + "\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find("\n## ", begin + 1) - begin);
}

TEST(PagesTest, EveryPlannerIsDescribedWithAllItsOptions) {
  for (const Planner* planner : planners()) {
    const std::string text = description_of(*planner);
    const std::string name(planner->name());
    EXPECT_FALSE(text.empty()) << name << " is not described";
    for (const OptionField& field : planner->options()) {
      const std::string row = "\n| `" + std::string(field.name) + "` | " +
                              to_string(field.fallback) + " | " + std::string(field.meaning) +
                              " |\n";
      EXPECT_NE(text.find(row), std::string::npos) << name << " lacks" << row;
    }
  }
}

// hybrid renders no system: its page says what it takes from which, and where it departs.
TEST(PagesTest, EveryDescriptionOfASystemSaysWhatItDoesWhatOursDoesAndWhereTheyDiffer) {
  for (const Planner* planner : planners()) {
    const std::string text = description_of(*planner);
    const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
    if (planner->name() == "hybrid") {
      EXPECT_TRUE(has("\n## What it takes from where, and where it departs\n"));
      continue;
    }
    EXPECT_TRUE(has("\n**The paper.**") || has("\n**The system.**")) << planner->name();
    EXPECT_TRUE(has("\n**Ours.**")) << planner->name();
    EXPECT_TRUE(has("\n**Where they differ.**")) << planner->name();
  }
}

TEST(PagesTest, NoOptionIsListedThatDoesNotExist) {
  for (const Planner* planner : planners()) {
    const std::string text = description_of(*planner);
    std::size_t rows = 0;
    for (std::size_t at = text.find("\n| `"); at != std::string::npos;
         at = text.find("\n| `", at + 1)) {
      ++rows;
    }
    EXPECT_EQ(rows, planner->options().size()) << planner->name();
  }
}

TEST(PagesTest, EverySectionIsOfAPlanner) {
  std::istringstream lines(pages_of_systems());
  std::size_t sections = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("## ")) continue;
    ++sections;
    EXPECT_NO_THROW((void)planner_named(line.substr(3))) << line;
  }
  EXPECT_EQ(sections, planners().size() - 1);
}

}  // namespace
}  // namespace spillway::planning
