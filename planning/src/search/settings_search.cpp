// SPDX-License-Identifier: Apache-2.0
#include "search/settings_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "cost/floor.hpp"
#include "search/small_storages.hpp"
#include "spillway/plan/validator.hpp"
#include "spillway/planning/bound/lower_bound.hpp"

namespace spillway::planning {
namespace {

// Touches visited in all passes, and in all simulations, of one search.
constexpr double kPassWork = 2e6;
constexpr double kSimulationWork = 3e6;
constexpr int kMostPasses = 160;

// A step this much above the lower bound is left as it is.
constexpr double kNearTheBound = 1.0001;

// Touches of the step times settings for less room; each may take kMostPassesInVain passes.
constexpr double kLessRoomWork = 2e5;

// The first third of the changes finds half of those that are accepted.
constexpr double kFirstSize = 1.5;

// A plan that puts its copies off from step to step may be slow only after the steps that a
// simulation takes by default; what would become the best runs on to this one.
constexpr std::uint32_t kSettledSteps = 8;

// The pass looks at six storages of each size.
constexpr int kManyCandidates = 24;

struct Start {
  double link_price, away_exponent, lead, reserve;  // the last as a share of the device budget
  double surplus_exponent;
  bool by_size = true;
  std::size_t small = 0;  // of kSmallShares
};
// Shares of the room beside each op for storages that are small enough to stay.
constexpr std::array<double, 3> kSmallShares{0, 0.5, 1};
constexpr std::array<Start, 27> kStarts{{
    {0.2, 1.0, 0.05, 0, 1, true, 2}, {0.2, 1.0, 0.05, 0, 0, true, 1},
    {0.02, 1.0, 0.5, 0, 0, true, 2}, {1.0, 1.0, 0.05, 0, 0, true, 2},
    {0.2, 1.0, 0.05, 0, 1},          {0.05, 0.0, 0.05, 0, 0},
    {1.0, 1.0, 0.05, 0, 0},          {0.2, 0.0, 0.05, 0, 1},
    {0.2, 1.0, 0.05, 0, 1, false},   {0.2, 1.0, 0.05, 0, 0, false},
    {0.2, 1.0, 0.05, 0, 0},          {1.0, 1.0, 0.05, 0.1, 0},
    {0.02, 1.0, 0.5, 0, 1},          {0.02, 1.0, 0.5, 0, 0},
    {5.0, 1.0, 0.5, 0.2, 0},         {0.2, 2.0, 0.05, 0, 0.5},
    {0.2, 2.0, 0.05, 0, 0},          {0.0, 3.0, 0.0, 0, 0},
    {0.5, 0.5, 0.2, 0.05, 1},        {0.5, 0.5, 0.2, 0.05, 0},
    {0.02, 0.3, 0.05, 0, 0},         {2.0, 1.0, 1.0, 0, 0.5},
    {0.1, 1.5, 2.0, 0.3, 0},         {5.0, 2.0, 0.05, 0, 0},
    {0.0, 1.0, 4.0, 0.05, 1},        {0.3, 0.0, 0.05, 0, 0},
    {0.02, 1.0, 0.5, 0, 0, false},
}};

SweepSettings with(const Start& start, const SweepSettings& base, const StepModel& model) {
  SweepSettings settings = base;
  settings.link_price = start.link_price;
  settings.away_exponent = start.away_exponent;
  settings.lead = start.lead;
  settings.surplus_exponent = start.surplus_exponent;
  settings.by_size = start.by_size;
  settings.candidates = start.by_size ? kManyCandidates : base.candidates;
  settings.reserve =
      static_cast<std::uint64_t>(start.reserve * static_cast<double>(model.budget(Tier::kDevice)));
  return settings;
}

}  // namespace

SettingsSearch::SettingsSearch(const Problem& problem, const StepModel& model, Simulator& simulator,
                               const PlanningContext& context, std::string planner)
    : problem_(problem),
      model_(model),
      simulator_(simulator),
      context_(context),
      planner_(std::move(planner)),
      began_(context.now()) {
  const double touches = std::max<double>(1, model.table.touches());
  simulate_ = model.table.touches() <= kMostSimulatedTouches;
  for (const double share : kSmallShares) {
    stay_up_to_.push_back(simulate_ && share > 0 ? pass::size_that_may_stay(model, share) : 0);
  }
  passes_left_ =
      simulate_ ? static_cast<int>(std::clamp(kPassWork / touches, 3.0, double{kMostPasses})) : 1;
  passes_ = passes_left_;
  simulations_left_ =
      static_cast<int>(std::clamp(kSimulationWork / touches, 0.0, double{kMostPasses}));
  // On long traces there are few passes, and the bound takes as long as one.
  const double least = simulate_
                           ? static_cast<double>(lower_bound(model, BoundEffort::kWindows).step_ns)
                           : static_cast<double>(model.start[model.ops()]);
  goal_ns_ = least * kNearTheBound;
}

bool SettingsSearch::time_is_up() const {
  return context_.now() - began_ >= context_.time_limit_ns;
}

void SettingsSearch::tell(double work, std::string_view doing) const {
  const double limit = static_cast<double>(std::max<TimeNs>(context_.time_limit_ns, 1));
  const double time = static_cast<double>(context_.now() - began_) / limit;
  context_.progress(std::clamp(std::max(work, time), 0.0, 1.0), doing);
}

std::optional<double> SettingsSearch::measure(const Plan& plan, const SimulationOptions& options) {
  --simulations_left_;
  const SimulationOutcome outcome = simulator_.run(plan, options);
  const auto* report = std::get_if<SimulationReport>(&outcome);
  if (report == nullptr) return std::nullopt;
  return static_cast<double>(report->step_ns);
}

std::optional<double> SettingsSearch::settled(const Plan& plan, double most) {
  const std::optional<double> soon = measure(plan);
  if (!soon || *soon > most || estimates()) return soon;
  return measure(plan, {.steps = kSettledSteps});
}

SweepSettings SettingsSearch::vary(const SweepSettings& settings, double size) {
  SweepSettings other = settings;
  const auto scaled = [&](double value, double least, double most) {
    return std::clamp((value + least) * std::exp(size * (2 * random_.share() - 1)), 0.0, most);
  };
  other.link_price = scaled(settings.link_price, 0.005, 20);
  other.away_exponent = scaled(settings.away_exponent, 0.05, 4);
  other.lead = scaled(settings.lead, 0.01, 20);
  const double share =
      static_cast<double>(settings.reserve) /
      static_cast<double>(std::max<std::uint64_t>(model_.budget(Tier::kDevice), 1));
  other.reserve =
      random_.share() < 0.5
          ? 0
          : static_cast<std::uint64_t>(scaled(share, 0.003, 0.3) *
                                       static_cast<double>(model_.budget(Tier::kDevice)));
  other.candidates =
      random_.share() < 0.5 ? settings.candidates : 1 + static_cast<int>(random_.share() * 24);
  if (random_.share() < 0.3) other.surplus_exponent = 0.5 * std::floor(random_.share() * 3);
  if (random_.share() < 0.1) other.recompute = false;
  if (random_.share() < 0.1) other.early_out = false;
  if (random_.share() < 0.1) other.by_size = !other.by_size;
  if (random_.share() < 0.2) other.stay_up_to = stay_up_to_[random_.below(stay_up_to_.size())];
  return other;
}

bool SettingsSearch::consider(const SweepSettings& settings, std::optional<Candidate>& best) {
  if (passes_left_ <= 0) return false;
  tell(1 - static_cast<double>(passes_left_) / passes_, "searching");
  --passes_left_;
  SweepResult result = sweep(model_, settings);
  if (!result.feasible) return true;
  if (!simulate_) {
    if (best && result.step_ns >= best->step_ns) return true;
    Plan plan = write_plan(problem_, model_, result.draft, planner_);
    // A pass counts exactly what it keeps on the device, but not all that lies on a scarce tier.
    if (!is_scarce(model_) || !validate(plan, problem_.trace, problem_.budgets)) {
      best = Candidate{std::move(plan), std::move(result.draft), settings, result.step_ns};
    }
    return true;
  }
  if (simulations_left_ <= 0) return false;
  Plan plan = write_plan(problem_, model_, result.draft, planner_);
  const std::optional<double> step = settled(plan, best ? best->step_ns : kNever);
  const bool shorter = step && (!best || *step < best->step_ns);
  // The simulator follows a plan that a step cannot begin again from; the validator does not.
  if (shorter && !validate(plan, problem_.trace, problem_.budgets)) {
    best = Candidate{std::move(plan), std::move(result.draft), settings, *step};
  }
  return true;
}

std::vector<SweepSettings> settings_for_less_room(const StepModel& model,
                                                  const SweepSettings& base) {
  std::vector<SweepSettings> other_remedies;
  if (base.recompute) {
    other_remedies.assign(2, base);
    other_remedies[0].spare_host = true;
    other_remedies[1].recompute = false;
  }
  if (model.table.touches() > kMostSimulatedTouches) return other_remedies;
  // The dearer the links, the more is made again and the less has to lie anywhere.
  std::vector<Start> starts;
  std::copy_if(kStarts.begin(), kStarts.end(), std::back_inserter(starts),
               [](const Start& start) { return start.small == 0; });
  std::stable_sort(starts.begin(), starts.end(), [](const Start& one, const Start& other) {
    return one.link_price > other.link_price;
  });
  const std::uint64_t budget = model.budget(Tier::kDevice);
  const std::uint64_t over_floor = budget - std::min(floor_of(model).bytes, budget);
  const auto most = static_cast<std::size_t>(
      std::clamp(kLessRoomWork / (model.table.touches() + 1.0), 3.0, double{kMostPasses}));
  const std::size_t most_starts = most - other_remedies.size();
  std::vector<SweepSettings> all;
  for (const double spared : {0.0, 0.01, 0.03, 0.1, 1.0, 0.75, 0.5, 0.25}) {
    for (const Start& start : starts) {
      if (all.size() >= most_starts || (spared > 0 && over_floor == 0)) break;
      all.push_back(with(start, base, model));
      all.back().reserve = static_cast<std::uint64_t>(spared * static_cast<double>(over_floor));
    }
  }
  all.insert(all.begin() + 1, other_remedies.rbegin(), other_remedies.rend());
  return all;
}

std::optional<Candidate> SettingsSearch::run(const SweepSettings& base, bool search) {
  std::optional<Candidate> best;
  consider(base, best);
  const auto done = [&](const std::optional<Candidate>& candidate) {
    return candidate && good_enough(candidate->step_ns);
  };
  if (search) {
    for (const Start& start : kStarts) {
      if (done(best) || time_is_up()) break;
      SweepSettings settings = with(start, base, model_);
      settings.stay_up_to = stay_up_to_[start.small];
      if (!consider(settings, best)) break;
    }
    const int changes = passes_left_;
    for (int turn = 0; turn < changes && best && !done(best) && !time_is_up(); ++turn) {
      const double size = kFirstSize * std::exp(-3.0 * turn / changes);
      SweepSettings settings = vary(best->settings, size);
      settings.recompute = settings.recompute && base.recompute;
      if (!consider(settings, best)) break;
    }
  }
  if (!best) {
    for (const SweepSettings& settings : settings_for_less_room(model_, base)) {
      passes_left_ = std::max(passes_left_, 1);
      simulations_left_ = std::max(simulations_left_, 1);
      consider(settings, best);
      if (best) break;
    }
  }
  return best;
}

}  // namespace spillway::planning
