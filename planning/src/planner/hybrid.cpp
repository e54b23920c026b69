// SPDX-License-Identifier: Apache-2.0
// The default planner: every storage class, every remedy, priced, then improved by search. See
// docs/planners/hybrid.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "cost/floor.hpp"
#include "demand_pager.hpp"
#include "early_copies.hpp"
#include "fitting_pass.hpp"
#include "planner/planners.hpp"
#include "planner/shortage.hpp"
#include "search/refine.hpp"
#include "search/settings_search.hpp"
#include "spillway/plan/validator.hpp"
#include "spillway/planning/registry.hpp"

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
    OptionField{"borrow",
                "The other planners' plans are candidates where they take no time to make.", true},
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
  settings.by_size = true;
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

void take_if_shorter(const Plan& plan, const std::string& label, SettingsSearch& search,
                     std::optional<Candidate>& best) {
  const std::optional<double> step = search.settled(plan, best ? best->step_ns : kNever);
  if (!step || (best && *step >= best->step_ns)) return;
  if (!best) best.emplace();
  best->plan = plan;
  best->plan.planner = fmt::format("{} from {}", label, plan.planner);
  best->step_ns = *step;
}

// Whether a plan does what the options forbid hybrid to do.
bool forbidden(const Plan& plan, const StepModel& model, const Options& options) {
  const auto has = [&](PlanActionKind kind) {
    return std::any_of(plan.actions.begin(), plan.actions.end(),
                       [&](const PlanAction& action) { return action.kind == kind; });
  };
  const auto moves_what_lives_on = [&] {
    return std::any_of(plan.actions.begin(), plan.actions.end(), [&](const PlanAction& action) {
      const bool of_a_storage =
          action.kind != PlanActionKind::kRecompute && action.kind != PlanActionKind::kChoose;
      const Row storage = of_a_storage ? static_cast<Row>(to_value(action.storage)) : 0;
      return of_a_storage && model.table.successor(storage) == storage;
    });
  };
  const bool begins_away = std::any_of(plan.places.begin(), plan.places.end(),
                                       [](const PlanPlace& place) { return place.tiers != 0; });
  return (!options.get<bool>("persistent") && (begins_away || moves_what_lives_on())) ||
         (!options.get<bool>("recompute") && has(PlanActionKind::kRecompute)) ||
         (!options.get<bool>("workspace") && has(PlanActionKind::kChoose)) ||
         (!options.get<bool>("prefetch") && has(PlanActionKind::kFetch)) ||
         (!options.get<bool>("early-eviction") && has(PlanActionKind::kEvict));
}

// Passes price each gap by itself. Where nearly all bytes leave between nearly all ops, as in a
// long recurrent network near its floor, Belady's rule for all of them together may need fewer
// copies: its draft, with copies on demand or made early, is one more to refine.
void start_from_paging(const Problem& problem, const StepModel& model, const Options& options,
                       const SweepSettings& base, const std::string& label, SettingsSearch& search,
                       std::optional<Candidate>& best) {
  if (search.estimates() || (best && search.good_enough(best->step_ns))) return;
  const auto paged = page_on_demand(model, VictimOrder::kFurthestNextUse);
  if (!paged) return;
  std::vector<Draft> drafts{*paged};
  for (const double reach : {1.0, 3.0, 10.0}) {
    drafts.push_back(with_early_copies(model, *paged, reach));
  }
  for (Draft& draft : drafts) {
    Plan plan = write_plan(problem, model, draft, label);
    if (forbidden(plan, model, options)) continue;
    const std::optional<double> step = search.settled(plan, best ? best->step_ns : kNever);
    if (!step || (best && *step >= best->step_ns)) continue;
    if (validate(plan, problem.trace, problem.budgets)) continue;
    best = Candidate{std::move(plan), std::move(draft), base, *step};
  }
}

// On a trace of this many touches the slowest of the other planners takes some tenths of a second:
// beyond it one alone might take more than the time limit.
constexpr Row kMostBorrowingTouches = 30'000;

// The other planners' plans, as far as there is time; where no plan was `found` it takes as long as
// it takes, on a long trace until one of them has one.
std::vector<Plan> plans_of_others(const Problem& problem, const StepModel& model,
                                  const Options& options, const SettingsSearch& clock, bool found) {
  std::vector<Plan> plans;
  PlanningContext brief;
  brief.explain = false;
  for (const Planner* other : planners()) {
    if (other->name() == "hybrid") continue;
    if (found ? clock.time_is_up() : clock.estimates() && !plans.empty()) break;
    PlanOutcome outcome = other->plan(problem, Options(other->options()), brief);
    auto* plan = std::get_if<Plan>(&outcome);
    if (plan != nullptr && !forbidden(*plan, model, options)) plans.push_back(std::move(*plan));
  }
  return plans;
}

// A planner that decides by a rule may fit into less room and not into more.
std::vector<Plan> plans_with_less(const Problem& problem, const StepModel& model,
                                  const Options& options, const SettingsSearch& clock) {
  std::vector<Plan> plans;
  const std::uint64_t floor = floor_of(model).bytes;
  const std::uint64_t budget = model.budget(Tier::kDevice);
  for (const double spared : {0.25, 0.5, 0.75, 1.0}) {
    if (budget <= floor || !plans.empty()) break;
    Budgets less = problem.budgets;
    less[Tier::kDevice] =
        Bytes{budget - static_cast<std::uint64_t>(spared * static_cast<double>(budget - floor))};
    const Problem smaller = problem.with(less);
    plans = plans_of_others(smaller, StepModel(smaller), options, clock, false);
  }
  return plans;
}

// Whether more bytes have to be somewhere than there are.
bool counting_rules_out(const StepModel& model) {
  return floor_of(model).bytes > model.budget(Tier::kDevice) || short_on_all_tiers(model) > 0;
}

Infeasible explained(const Problem& problem, const StepModel& model, const SweepSettings& base,
                     const Options& options, const PlanningContext& context) {
  if (!context.explain) return {};
  // Touches of the step times passes, for one tier. A try takes two passes where it fits and up to
  // kMostPassesInVain where it does not.
  constexpr double kWork = 2e6;
  constexpr double kPassesPerTry = 6;
  const double passes = kWork / (model.table.touches() + 1.0);
  const auto tries = static_cast<int>(std::clamp(passes / kPassesPerTry, 3.0, 12.0));
  FittingPass pass(problem, base, passes / tries);
  const auto fits = [&](const Budgets& budgets) {
    const bool allowed = options.get<bool>("disk") || budgets[Tier::kDisk] == Bytes{0};
    return allowed && pass(budgets);
  };
  return explain_shortage(problem, model, fits, tries);
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
    const SweepSettings base = settings_from(options, model);
    if (counting_rules_out(model)) return explained(allowed, model, base, options, context);
    Simulator simulator(allowed);
    const std::string changes = options.changes();
    const std::string label =
        changes.empty() ? std::string(name()) : fmt::format("{} {}", name(), changes);
    SettingsSearch search(allowed, model, simulator, context, label);
    const bool borrow = options.get<bool>("borrow");
    std::vector<Plan> others;
    if (borrow && model.table.touches() <= kMostBorrowingTouches) {
      others = plans_of_others(allowed, model, options, search, true);
    }
    std::optional<Candidate> best = search.run(base, options.get<bool>("search"));
    if (options.get<bool>("search")) {
      start_from_paging(allowed, model, options, base, label, search, best);
    }
    if (best && options.get<bool>("refine")) {
      Refiner(allowed, model, search, base).refine(*best, refining_turns(model));
    }
    if (best && search.estimates() && (!context.seeds.empty() || !others.empty())) {
      best->step_ns = search.measure(best->plan).value_or(kNever);
    }
    for (const Plan& seed : context.seeds) {
      if (!forbidden(seed, model, options)) take_if_shorter(seed, label, search, best);
    }
    if (!best && borrow) others = plans_of_others(allowed, model, options, search, false);
    for (const Plan& plan : others) take_if_shorter(plan, label, search, best);
    if (!best && borrow && !search.estimates()) {
      for (const Plan& plan : plans_with_less(allowed, model, options, search)) {
        take_if_shorter(plan, label, search, best);
      }
    }
    if (best) {
      best->plan.budgets = problem.budgets;
      return std::move(best->plan);
    }
    return explained(allowed, model, base, options, context);
  }
};

}  // namespace

const Planner& hybrid_planner() {
  static const HybridPlanner planner;
  return planner;
}

}  // namespace spillway::planning
