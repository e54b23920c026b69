// SPDX-License-Identifier: Apache-2.0
#include "plan/planning_request_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "plan/planner_run.hpp"
#include "plan/what_if_batch.hpp"
#include "spillway/base/error.hpp"
#include "spillway/planning/registry.hpp"

namespace spillway::tools {
namespace {

using Command = PlanningRequest::Command;
using Planners = std::vector<const planning::Planner*>;

[[noreturn]] void refuse_together(std::string_view flag, std::string_view other,
                                  std::string_view reason) {
  throw UserError(
      fmt::format("{} does not go with {}, {}: leave one of them out.", flag, other, reason));
}

std::string names_of(const Planners& planners) {
  std::vector<std::string_view> names;
  for (const planning::Planner* planner : planners) names.push_back(planner->name());
  return fmt::format("{} {}", names.size() == 1 ? "the planner" : "the planners",
                     fmt::join(names, ", "));
}

Planners planners_with(std::string_view option) {
  Planners having;
  for (const planning::Planner* planner : planning::planners()) {
    if (has_option(*planner, option)) having.push_back(planner);
  }
  return having;
}

void check_options(const PlanningRequest& request, const Planners& chosen) {
  for (const auto& option : request.options) {
    const std::string& name = option.first;
    const bool used = std::any_of(chosen.begin(), chosen.end(),
                                  [&](const auto* planner) { return has_option(*planner, name); });
    if (!used) {
      throw UserError(fmt::format("--{} is no option of {}: it belongs to {}.", name,
                                  names_of(chosen), names_of(planners_with(name))));
    }
  }
  for (const planning::Planner* planner : chosen) (void)options_for(*planner, request);
}

// An option that auto-tuning searches for is not taken from a flag, and one that only it uses not
// without it.
void check_tuning(const PlanningRequest& request, const Planners& chosen) {
  constexpr std::array<std::string_view, 4> kTuned{"threshold", "ahead", "groupby", "sync-mode"};
  constexpr std::string_view kOnlyTuning = "memory-ratio";
  const auto tuner = std::find_if(chosen.begin(), chosen.end(),
                                  [](const auto* planner) { return has_option(*planner, "tune"); });
  if (tuner == chosen.end()) return;
  const bool tunes = options_for(**tuner, request).get<bool>("tune");
  for (const auto& option : request.options) {
    const std::string& name = option.first;
    if (tunes && std::find(kTuned.begin(), kTuned.end(), name) != kTuned.end()) {
      throw UserError(fmt::format(
          "--{} means nothing while --tune is on, which searches for it: give --tune off.", name));
    }
    if (!tunes && name == kOnlyTuning) {
      throw UserError(
          fmt::format("--{} means nothing with --tune off: it bounds what tuning tries.", name));
    }
  }
}

void check_search(const PlanningRequest& request, const Planners& chosen) {
  const bool used = std::any_of(chosen.begin(), chosen.end(),
                                [](const auto* planner) { return searches(*planner); });
  if (used || !(request.seed_all || request.time_limit_ns)) return;
  throw UserError(fmt::format("{} means nothing to {}: only {} searches. Leave it out.",
                              request.seed_all ? "--seed" : "--time-limit", names_of(chosen),
                              names_of(planners_with("search"))));
}

void check_budgets(const PlanningRequest& request) {
  if (request.command == Command::kCompare || request.device_budgets.size() <= 1) return;
  throw UserError(
      fmt::format("One --budget at a time, not \"{}\" too: spillway compare takes more.",
                  request.device_budgets[1]));
}

void check_simulation(const PlanningRequest& request) {
  if (request.timeline && !request.json) {
    throw UserError("--timeline shows nothing without --json: give both, or --perfetto FILE.");
  }
  if (request.plan_path) return;
  for (const auto& [flag, text] :
       {std::pair("--host", request.host_budget), std::pair("--disk", request.disk_budget)}) {
    if (text) {
      throw UserError(fmt::format(
          "{} means nothing without --plan FILE: nothing leaves the device without one.", flag));
    }
  }
}

void check_batch(const PlanningRequest& request) {
  if (!request.batch) {
    if (!request.assume.empty()) throw UserError("--assume goes with --batch.");
    if (request.program.empty()) return;
    throw UserError(
        fmt::format("\"{}\" behind -- means nothing without spillway what-if --batch 1:512.",
                    request.program.front()));
  }
  if (request.slowdown) refuse_together("--batch", "--slowdown", "another question");
  if (request.all_machines) refuse_together("--batch", "--machines", "another question");
  if (request.durations == Durations::kRecorded) {
    refuse_together("--recorded-times", "--batch", "which records without running");
  }
  if (!request.files.empty()) {
    refuse_together("A trace", "--batch", "which records the program itself");
  }
  const bool placed = std::any_of(
      request.program.begin(), request.program.end(),
      [](const std::string& word) { return word.find(kBatchPlaceholder) != std::string::npos; });
  if (!placed) {
    throw UserError(fmt::format(
        "--batch needs a program with {0} where the size goes, for instance:\n  -- python train.py "
        "--batch {0}",
        kBatchPlaceholder));
  }
}

void check_question(const PlanningRequest& request) {
  const bool several = request.files.size() > 1;
  if (request.slowdown) {
    if (request.all_machines) refuse_together("--slowdown", "--machines", "another question");
    if (!request.device_budgets.empty()) {
      refuse_together("--budget", "--slowdown", "which looks for the budget");
    }
    if (several) refuse_together("A second trace", "--slowdown", "which looks into one");
  }
  if (request.all_machines) {
    if (request.machine) refuse_together("--machine", "--machines", "which tries all of them");
    if (several) refuse_together("A second trace", "--machines", "which looks into one");
  }
}

}  // namespace

void check_request(const PlanningRequest& request) {
  const Planners chosen = chosen_planners(request);
  check_options(request, chosen);
  check_tuning(request, chosen);
  check_search(request, chosen);
  check_budgets(request);
  check_batch(request);
  if (request.command == Command::kSimulate) check_simulation(request);
  if (request.command == Command::kWhatIf) check_question(request);
}

}  // namespace spillway::tools
