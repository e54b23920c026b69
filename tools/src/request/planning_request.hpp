// SPDX-License-Identifier: Apache-2.0
// The requests to `spillway plan`, `simulate`, `compare`, `explain` and `what-if`, as text is
// turned into values. Nothing is read or computed here. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "spillway/base/ids.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/planning/workspace_margin.hpp"

namespace spillway::tools {

/// The machine where neither a flag nor a plan names one.
inline constexpr const char* kDefaultMachine = "h200";

struct PlanningRequest {
  enum class Command { kPlan, kSimulate, kCompare, kExplain, kWhatIf };
  Command command = Command::kPlan;

  std::vector<std::string> files;         ///< traces; for explain the plan
  std::optional<std::string> trace_path;  ///< explain: of another trace than the plan names
  std::optional<std::string> plan_path;   ///< simulate
  std::optional<std::string> output_path;
  std::optional<std::string> perfetto_path;

  std::optional<std::string> machine;       ///< a name or the path of a file
  std::vector<std::string> device_budgets;  ///< `12GiB`, `60%`; more than one for compare
  std::optional<std::string> host_budget;
  std::optional<std::string> disk_budget;
  double workspace_share = planning::kWorkspaceShare;  ///< of the largest working set, left free
  std::optional<Durations> durations;                  ///< by a flag

  std::string planner = "hybrid";
  std::vector<std::string> planners;                         ///< compare; empty: all
  std::vector<std::pair<std::string, std::string>> options;  ///< of the planner, as text
  std::optional<TimeNs> time_limit_ns;                       ///< nothing: the planner's own
  bool seed_all = false;

  std::optional<std::string> storage;  ///< explain: name or id
  std::optional<std::uint64_t> op;     ///< explain
  std::size_t top = 20;                ///< explain
  std::optional<double> slowdown;      ///< what-if: share, 0.05 for 5 %
  bool all_machines = false;           ///< what-if
  /// what-if: the least and the largest size to record `program` at, {batch} in its words.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> batch;
  std::vector<std::string> program;
  std::string assume;     ///< with it: what the program gets where it reads from a tensor
  bool timeline = false;  ///< simulate
  bool json = false;
};

}  // namespace spillway::tools
