// SPDX-License-Identifier: Apache-2.0
// docs/planners has a page for hybrid and a section for each other planner, with the names of its
// options and none besides.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

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

/// `Options: `a`, `b`.` as the pages have it; empty for a planner without options.
std::string line_of_options(const Planner& planner) {
  std::string line;
  for (const OptionField& field : planner.options()) {
    line += (line.empty() ? "Options: `" : ", `") + std::string(field.name) + "`";
  }
  return line.empty() ? line : line + ".";
}

/// The paragraphs that begin with `Options:`, in one line each.
std::vector<std::string> paragraphs_of_options(const std::string& text) {
  std::vector<std::string> found;
  for (std::size_t at = text.find("\n\nOptions:"); at != std::string::npos;
       at = text.find("\n\nOptions:", at + 1)) {
    const std::size_t begin = at + 2;
    std::string paragraph = text.substr(begin, text.find("\n\n", begin) - begin);
    std::replace(paragraph.begin(), paragraph.end(), '\n', ' ');
    if (paragraph.ends_with(' ')) paragraph.pop_back();
    found.push_back(std::move(paragraph));
  }
  return found;
}

// `spillway plan --help` says what each option does; tests/docs compares its names with the pages'.
TEST(PagesTest, EveryPlannerIsDescribedWithTheOptionsThatItHas) {
  for (const Planner* planner : planners()) {
    const std::string text = description_of(*planner);
    EXPECT_FALSE(text.empty()) << planner->name() << " is not described";
    const std::string line = line_of_options(*planner);
    const std::vector<std::string> wanted(line.empty() ? 0 : 1, line);
    EXPECT_EQ(paragraphs_of_options(text), wanted) << planner->name();
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
