// SPDX-License-Identifier: Apache-2.0
// The default planner: every storage class, every remedy, priced, then improved by search. See
// docs/planners/hybrid.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "spillway/planning/planner/planners.hpp"
#include "spillway/planning/planner/shortage.hpp"
#include "spillway/planning/tune/refine.hpp"
#include "spillway/planning/tune/settings_search.hpp"

namespace spillway::planning {
namespace {

const std::array kFields{
    OptionField{"recompute", "Storages may be dropped and computed again.", true},
    OptionField{"disk", "Storages may go to the disk where the host is full.", true},
    OptionField{"persistent",
                "Parameters, optimizer state and whatever else outlives the step may leave.", true},
    OptionField{"prefetch", "Copies in are queued before they are needed.", true},
    OptionField{"early-eviction",
                "Copies out begin as soon as the link is idle, not when room is short.", true},
    OptionField{"workspace", "Ops with several algorithms run as the fastest that fits.", true},
    OptionField{"search", "Settings of the pass are searched for with the simulator.", true},
    OptionField{"refine", "Single gaps of the best plan are changed while the step gets shorter.",
                true},
    OptionField{"link-price",
                "What a nanosecond of copying costs where computing does not wait for it, in "
                "nanoseconds: above 0 it keeps the links free for what is dear to compute again.",
                0.2, 0, 100},
};

SweepSettings settings_from(const Options& options, const StepModel& model) {
  SweepSettings settings;
  settings.recompute = options.get<bool>("recompute");
  settings.prefetch = options.get<bool>("prefetch");
  settings.early_out = options.get<bool>("early-eviction");
  settings.choose_workspace = options.get<bool>("workspace");
  settings.link_price = options.get<double>("link-price");
  if (!options.get<bool>("persistent")) {
    settings.rules.rule.assign(model.table.storages(), StorageRule::kAny);
    for (Row s = 0; s < model.table.storages(); ++s) {
      if (model.table.successor(s) == s) settings.rules.rule[s] = StorageRule::kKeep;
    }
  }
  return settings;
}

// None on traces so long that a change is not worth a simulation.
int refining_turns(const StepModel& model) {
  constexpr double kWork = 4e6;  // touches, over all simulations
  const double turns = kWork / (model.table.touches() + 1.0);
  return turns < 50 ? 0 : static_cast<int>(std::min(turns, 4000.0));
}

class HybridPlanner final : public Planner {
 public:
  [[nodiscard]] std::string_view name() const override { return "hybrid"; }
  [[nodiscard]] std::string_view summary() const override {
    return "Keeps, copies out or computes again whatever is cheapest by op times and link windows, "
           "for every kind of storage; then searches with the simulator.";
  }
  [[nodiscard]] std::span<const OptionField> options() const override { return kFields; }

  using Planner::plan;
  [[nodiscard]] PlanOutcome plan(const Problem& problem, const Options& options,
                                 const PlanningContext& context) const override {
    Problem allowed = problem;
    if (!options.get<bool>("disk")) allowed.budgets[Tier::kDisk] = Bytes{0};
    const StepModel model(allowed);
    Simulator simulator(allowed);
    const std::string changes = options.changes();
    const std::string label =
        changes.empty() ? std::string(name()) : fmt::format("{} {}", name(), changes);
    SettingsSearch search(allowed, model, simulator, context, label);
    const SweepSettings base = settings_from(options, model);
    std::optional<Candidate> best = search.run(base, options.get<bool>("search"));
    if (best && options.get<bool>("refine")) {
      Refiner(allowed, model, simulator, search)
          .refine(*best, refining_turns(model), options.get<bool>("recompute"));
    }
    for (const Plan& seed : context.seeds) {
      const std::optional<double> step = search.measure(seed);
      if (!step || (best && *step >= best->step_ns)) continue;
      if (!best) best.emplace();
      best->plan = seed;
      best->plan.planner = fmt::format("{} from {}", label, seed.planner);
      best->step_ns = *step;
    }
    if (best) {
      best->plan.budgets = problem.budgets;
      return std::move(best->plan);
    }
    return explain_shortage(
        allowed, model,
        [&](Bytes budget) {
          Problem larger = allowed;
          larger.budgets[Tier::kDevice] = budget;
          const StepModel other(larger);
          SweepSettings plain = base;
          if (sweep(other, plain).feasible) return true;
          plain.recompute = false;
          return sweep(other, plain).feasible;
        },
        static_cast<int>(std::clamp(4'000'000 / (model.table.touches() + 1), 3U, 24U)));
  }
};

}  // namespace

const Planner& hybrid_planner() {
  static const HybridPlanner planner;
  return planner;
}

}  // namespace spillway::planning
