// SPDX-License-Identifier: Apache-2.0
// The flags of the planning commands. Every option of every planner is one, under its own name;
// where two planners have an option of one name, they share the flag.
//
// Owns the values that CLI11 writes into, so it must live as long as the App. Throws UserError for
// what cannot be, or would not be used (check_request).
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "request/planning_request.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace spillway::tools {

class PlanningFlags {
 public:
  void add_commands(CLI::App& app);
  [[nodiscard]] static bool is_planning(const CLI::App& command);
  /// `program`: the words behind `--`.
  [[nodiscard]] PlanningRequest request(const CLI::App& command,
                                        std::vector<std::string> program) const;

 private:
  struct OptionText {
    std::string name;
    const CLI::App* command = nullptr;
    CLI::Option* option = nullptr;
    std::string text;
  };

  void add_machine_flags(CLI::App& command, const std::string& otherwise);
  void add_budget_flags(CLI::App& command);
  void add_margin_flag(CLI::App& command);
  void add_planner_flags(CLI::App& command);
  void add_report(CLI::App& app);
  void add_what_if(CLI::App& what_if);

  std::deque<OptionText> options_;
  std::vector<std::string> files_;
  std::string trace_, plan_, output_, perfetto_, machine_, host_, disk_;
  std::vector<std::string> budgets_;
  std::string planner_ = "hybrid", planners_, time_limit_, seed_, storage_, op_, top_;
  std::string slowdown_, batch_, assume_;
  std::string report_word_;  // of any of its flags; not looked at
  double workspace_share_ = planning::kWorkspaceShare;
  bool estimate_times_ = false, recorded_times_ = false;
  bool timeline_ = false, json_ = false, all_machines_ = false;
};

}  // namespace spillway::tools
