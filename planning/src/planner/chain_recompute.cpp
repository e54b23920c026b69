// SPDX-License-Identifier: Apache-2.0
// Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost", 2016. See
// docs/planners/README.md.
#include <algorithm>
#include <array>
#include <cmath>

#include "pass/sweep.hpp"
#include "planner/forward_pass.hpp"
#include "planner/gap_planner.hpp"
#include "planner/planners.hpp"

namespace spillway::planning {
namespace {

const std::array kFields{
    OptionField{"segments",
                "Into how many segments the saved storages are cut; 0: their square root, or the "
                "nearest number with which the step fits.",
                std::int64_t{0}, 0, 4e9},
    OptionField{"only-if-short", "A step that fits anyway is left alone.", true},
};

// Checkpoints are the last of each segment, and what cannot be made again.
SweepRules cut(const Problem& problem, const StepModel& model, std::size_t segments) {
  const AccessTable& table = model.table;
  const ForwardPass pass = forward_pass(problem, model);
  SweepRules rules;
  rules.rule.assign(table.storages(), StorageRule::kKeep);
  rules.leave_before.assign(table.storages(), kNoRow);
  rules.segment.assign(table.storages(), kNoRow);
  rules.drop_after_use.assign(table.storages(), 0);
  const std::size_t count = pass.saved.size();
  segments = std::clamp<std::size_t>(segments, 1, std::max<std::size_t>(count, 1));
  for (std::size_t i = 0; i < count; ++i) {
    const Row storage = pass.saved[i];
    const std::size_t segment = i * segments / count;
    const bool last = i + 1 == count || (i + 1) * segments / count != segment;
    if (last || model.recompute_op[storage] == kNoRow) continue;
    rules.rule[storage] = StorageRule::kRecomputeOnly;
    rules.leave_before[storage] = pass.turn;
    rules.segment[storage] = static_cast<Row>(segment);
  }
  return rules;
}

std::optional<Plan> attempt(const Problem& problem, const StepModel& model, std::size_t segments,
                            const std::string& label) {
  SweepSettings settings;
  settings.rules = cut(problem, model, segments);
  settings.choose_workspace = false;
  BeginState begin;
  begin.away.assign(model.table.storages(), 0);
  const SweepResult result = sweep_from(model, settings, begin);
  if (!result.feasible) return std::nullopt;
  return checked_plan(problem, model, result.draft, label);
}

class ChainRecomputePlanner final : public Planner {
 public:
  [[nodiscard]] std::string_view name() const override { return "chain-recompute"; }
  [[nodiscard]] std::string_view summary() const override {
    return "Keeps one storage per segment of the forward pass and computes the others again, "
           "sqrt(n) segments (Chen et al. 2016).";
  }
  [[nodiscard]] std::span<const OptionField> options() const override { return kFields; }

  using Planner::plan;
  [[nodiscard]] PlanOutcome plan(const Problem& problem, const Options& options,
                                 const PlanningContext& context) const override {
    const std::string label = label_of(*this, options);
    const auto given = static_cast<std::size_t>(options.get<std::int64_t>("segments"));
    return outcome_of(
        problem, context, [&](const Problem& p, const StepModel& m) -> std::optional<Plan> {
          const Draft nothing(m.table);
          if (options.get<bool>("only-if-short") && fits(m, nothing)) {
            return checked_plan(p, m, nothing, label);
          }
          if (given != 0) return attempt(p, m, given, label);
          const auto saved = static_cast<double>(forward_pass(p, m).saved.size());
          for (const double factor : {1.0, 2.0, 0.5, 4.0, 0.25}) {
            const auto segments = static_cast<std::size_t>(std::lround(factor * std::sqrt(saved)));
            if (auto plan = attempt(p, m, segments, label)) return plan;
          }
          return std::nullopt;
        });
  }
};

}  // namespace

const Planner& chain_recompute_planner() {
  static const ChainRecomputePlanner planner;
  return planner;
}

}  // namespace spillway::planning
