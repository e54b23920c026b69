// SPDX-License-Identifier: Apache-2.0
// The planning commands as functions, on a step in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "answer/planning_answer.hpp"
#include "cli/command_line.hpp"
#include "spillway/base/error.hpp"
#include "spillway/plan/plan_io.hpp"
#include "spillway/testing/random_steps.hpp"
#include "spillway/trace/trace_io.hpp"
#include "text/output_text.hpp"

namespace spillway::tools {

class PlanningCommandTest : public ::testing::Test {
 public:
  PlanningCommandTest() {
    std::string pattern = ::testing::TempDir() + "/spillway-planning-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    write_trace(spillway::testing::layered_step(6), trace());
  }
  ~PlanningCommandTest() override { std::filesystem::remove_all(directory_); }

 protected:
  [[nodiscard]] std::string trace() const { return directory_ + "/step.json.zst"; }
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }

  static PlanningRequest parsed(const std::vector<std::string>& words) {
    return std::get<PlanningRequest>(parse_command_line(words));
  }
  struct Answer {
    std::string text;
    int status = 0;
  };
  static Answer answer(const std::vector<std::string>& words) {
    const PlanningRequest request = parsed(words);
    const PlanningAnswer value = planning_answer(request);
    Answer result{request.json ? answer_json(value) : answer_text(value), status_of(value)};
    std::istringstream lines(result.text);
    if (result.text.substr(0, 1) != "{") {
      for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
    }
    return result;
  }
  static Json json(std::vector<std::string> words) {
    words.emplace_back("--json");
    return Json::parse(answer(words).text);
  }
  static std::string error(const std::vector<std::string>& words) {
    try {
      (void)planning_answer(parsed(words));
      return "no error";
    } catch (const UserError& mistake) {
      return mistake.what();
    }
  }

  std::string directory_;
};

}  // namespace spillway::tools
