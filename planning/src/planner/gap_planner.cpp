// SPDX-License-Identifier: Apache-2.0
#include "planner/gap_planner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "spillway/plan/validator.hpp"
#include "spillway/planning/sim/simulator.hpp"

namespace spillway::planning {

std::vector<std::int64_t> bytes_per_op(const StepModel& model) {
  std::vector<std::int64_t> bytes(model.ops());
  for (Row op = 0; op < model.ops(); ++op) {
    bytes[op] = static_cast<std::int64_t>(model.table.alive(op));
  }
  return bytes;
}

std::vector<AwayRange> away_ranges(const AccessTable& table, Row touch, const GapChoice& choice) {
  if (choice.remedy == Remedy::kKeep) return {};
  const GapEnd end = end_of_gap(table, touch);
  const Row ops = table.ops();
  if (end.touch == kNoRow) {
    const Row freed = table.freed_by(table.touch(touch).storage);
    return {{choice.out_at, freed == kNoRow ? ops : freed + 1}};
  }
  const Row use = table.op_of(end.touch) + (end.wraps ? ops : 0);
  const Row back = choice.in_at == kNoRow ? use : std::min(choice.in_at, use);
  if (back <= ops) return {{choice.out_at, back}};
  if (choice.out_at >= ops) return {{choice.out_at - ops, back - ops}};
  return {{choice.out_at, ops}, {0, back - ops}};
}

std::vector<std::int64_t> bytes_per_op(const StepModel& model, const Draft& draft) {
  const AccessTable& table = model.table;
  std::vector<std::int64_t> change(table.ops() + 1);
  for (Row row = 0; row < table.touches(); ++row) {
    const auto bytes = static_cast<std::int64_t>(table.bytes(table.touch(row).storage));
    for (const AwayRange& range : away_ranges(table, row, draft.gap[row])) {
      if (range.first >= range.last) continue;
      change[range.first] -= bytes;
      change[range.last] += bytes;
    }
  }
  std::vector<std::int64_t> bytes = bytes_per_op(model);
  std::int64_t away = 0;
  for (Row op = 0; op < table.ops(); ++op) {
    away += change[op];
    bytes[op] += away;
  }
  for (Row s = 0; s < table.storages(); ++s) {
    if (draft.idle[s] == Tier::kDevice) continue;
    for (std::int64_t& there : bytes) there -= static_cast<std::int64_t>(table.bytes(s));
  }
  for (const auto& [op, number] : draft.alternatives) {
    bytes[op] +=
        static_cast<std::int64_t>(model.alternatives[OpIndex{op}][number].workspace.count) -
        static_cast<std::int64_t>(table.workspace(op));
  }
  return bytes;
}

bool fits(const StepModel& model, const Draft& draft) {
  const std::vector<std::int64_t> bytes = bytes_per_op(model, draft);
  const auto most = static_cast<std::int64_t>(model.budget(Tier::kDevice));
  return std::all_of(bytes.begin(), bytes.end(), [&](std::int64_t there) { return there <= most; });
}

std::optional<Plan> checked_plan(const Problem& problem, const StepModel& model, const Draft& draft,
                                 const std::string& planner) {
  Plan plan = write_plan(problem, model, draft, planner);
  // Where the host is scarce the simulator may get through a step that cannot begin again.
  if (validate(plan, problem.trace, problem.budgets)) return std::nullopt;
  if (!std::holds_alternative<SimulationReport>(simulate(problem, plan))) return std::nullopt;
  return plan;
}

std::string label_of(const Planner& planner, const Options& options) {
  const std::string changes = options.changes();
  return changes.empty() ? std::string(planner.name())
                         : fmt::format("{} {}", planner.name(), changes);
}

PlanOutcome outcome_of(const Problem& problem, const PlanningContext& context,
                       const Attempt& attempt) {
  const StepModel model(problem);
  if (std::optional<Plan> plan = attempt(problem, model)) return *std::move(plan);
  if (!context.explain) return Infeasible{};
  const auto fits_budgets = [&](const Budgets& budgets) {
    const Problem larger = problem.with(budgets);
    return attempt(larger, StepModel(larger)).has_value();
  };
  // The smallest budget to a thousandth on short traces, roughly on long ones.
  const int tries =
      static_cast<int>(std::clamp<std::uint64_t>(400'000 / (model.table.touches() + 1), 3, 14));
  return explain_shortage(problem, model, fits_budgets, tries);
}

bool is_feature_map(const Problem& problem, const AccessTable& table, Row storage) {
  const StorageRole role = problem.trace.storages.role[storage];
  return table.creator(storage) != kNoRow && table.successor(storage) == kNoRow &&
         role != StorageRole::kParameter && role != StorageRole::kOptimizerState;
}

}  // namespace spillway::planning
