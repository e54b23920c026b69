// SPDX-License-Identifier: Apache-2.0
// Small traces: hybrid and the bound against the best plan of a large family. Exact, on smaller
// ones: optimum/exact_optimum_test.cpp.
//
// Tried: for every gap of what has bytes to speak of keeping, copying to the host as soon as the
// gap begins and fetching before any of up to four ops of it, the last included, or dropping and
// running the creator again at its end, with what else is dead by then. Every plan that the
// validator accepts is simulated. What hybrid can do besides, such as fetching an input for a
// recompute alone, is not tried: the shorter of both is the best known, and the optimum no longer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <vector>

#include "draft/draft.hpp"
#include "plan_fixture.hpp"
#include "planner/planners.hpp"
#include "training_steps.hpp"

namespace spillway::planning {
namespace {

constexpr std::uint64_t kLeastBytes = 1000;
constexpr Row kMostEntries = 4;

class Everything {
 public:
  explicit Everything(const Problem& problem)
      : problem_(problem), model_(problem), simulator_(problem), draft_(model_.table) {
    for (Row row = 0; row < model_.table.touches(); ++row) {
      const GapEnd end = end_of_gap(model_.table, row);
      if (end.touch == kNoRow) continue;
      const Row from = model_.table.op_of(row) + 1;
      const Row to = model_.table.op_of(end.touch) + (end.wraps ? model_.ops() : 0);
      if (model_.table.bytes(model_.table.touch(row).storage) < kLeastBytes) continue;
      if (to > from) gaps_.push_back({row, from, to, end.wraps});
    }
  }

  [[nodiscard]] double plans() const {
    double count = 1;
    for (const Gap& gap : gaps_) count *= 2.0 + std::min<Row>(gap.to - gap.from, kMostEntries);
    return count;
  }

  double best() {
    descend(0);
    return best_;
  }

 private:
  struct Gap {
    Row touch, from, to;
    bool wraps;
  };

  void descend(std::size_t depth) {
    if (depth == gaps_.size()) {
      const Plan plan = write_plan(problem_, model_, draft_, "all");
      if (validate(plan, problem_.trace, problem_.budgets)) return;
      SimulationOptions options;
      options.steps = 4;
      const SimulationOutcome outcome = simulator_.run(plan, options);
      const auto* report = std::get_if<SimulationReport>(&outcome);
      if (report != nullptr) best_ = std::min(best_, static_cast<double>(report->step_ns));
      return;
    }
    const Gap& gap = gaps_[depth];
    GapChoice& choice = draft_.gap[gap.touch];
    descend(depth + 1);
    const Row entries = std::min(gap.to - gap.from, kMostEntries);
    for (Row k = 1; k <= entries; ++k) {
      const Row in = gap.from + (gap.to - gap.from) * k / entries;
      choice = {.remedy = Remedy::kHost, .out_at = gap.from, .in_at = in};
      descend(depth + 1);
    }
    const Row storage = model_.table.touch(gap.touch).storage;
    if (!gap.wraps && model_.recompute_op[storage] != kNoRow) {
      choice = {.remedy = Remedy::kDrop, .out_at = gap.from};
      const std::size_t before = draft_.recomputations.size();
      run_again(storage, gap.to);
      descend(depth + 1);
      draft_.recomputations.resize(before);
    }
    choice = {};
  }

  // The recomputation of dead inputs runs before.
  void run_again(Row storage, Row at) {
    const Row op = model_.recompute_op[storage];
    if (op == kNoRow) return;
    const AccessTable& table = model_.table;
    for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
      const Row input = table.touch(row).storage;
      if (!table.touch(row).creates && table.freed_by(input) < at) run_again(input, at);
    }
    const Recompute recompute{at, op};
    const auto& known = draft_.recomputations;
    if (std::find(known.begin(), known.end(), recompute) == known.end()) {
      draft_.recomputations.push_back(recompute);
    }
  }

  const Problem& problem_;
  StepModel model_;
  Simulator simulator_;
  Draft draft_;
  std::vector<Gap> gaps_;
  double best_ = std::numeric_limits<double>::infinity();
};

class OptimumTest : public PlanFixture {};

TEST_F(OptimumTest, HybridAndTheBoundAreNearTheBestPlanKnown) {
  double hybrid_over_known = 0;
  double bound_over_known = 0;
  double hybrid_over_bound = 0;
  double worst = 1;
  int cases = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Trace trace = TrainingStep({.seed = seed,
                                      .layers = 2,
                                      .weight_bytes = 1,
                                      .heavy_ns = 4e5 * static_cast<double>(1 + seed % 4),
                                      .middle_dies = true,
                                      .optimizer_state = false})
                            .build();
    const Machine machine = machine_with_links(seed % 2 == 0 ? 1e9 : 4e9);
    for (const double times : {1.02, 1.1, 1.25}) {
      const Problem problem{trace, machine, budgets(trace, machine, times)};
      Everything everything(problem);
      ASSERT_LT(everything.plans(), 3e6);
      const double best = everything.best();
      const auto plan = make(hybrid_planner(), problem);
      ASSERT_EQ(plan.has_value(), best < 1e300) << "seed " << seed << " times " << times;
      if (!plan) continue;
      const LowerBound bound = lower_bound(StepModel(problem));
      const auto step = static_cast<double>(plan->report.step_ns);
      const auto least = static_cast<double>(bound.step_ns);
      const double known = std::min(best, step);
      ++cases;
      EXPECT_LE(least, known) << "seed " << seed;
      hybrid_over_known += step / known;
      bound_over_known += least / known;
      hybrid_over_bound += step / least;
      worst = std::min(worst, least / known);
      std::printf(
          "seed %2d budget %.2f floor: tried %.3f of the ops alone, hybrid %.3f of that, bound "
          "%.3f\n",
          static_cast<int>(seed), times, best / static_cast<double>(bound.compute_ns), step / best,
          least / best);
    }
  }
  ASSERT_GE(cases, 20);
  std::printf(
      "%d cases: hybrid / best known %.4f, bound / best known %.4f (worst %.4f), hybrid / bound "
      "%.4f\n",
      cases, hybrid_over_known / cases, bound_over_known / cases, worst, hybrid_over_bound / cases);
  EXPECT_LE(hybrid_over_known / cases, 1.05);
  EXPECT_GE(bound_over_known / cases, 0.9);
}

}  // namespace
}  // namespace spillway::planning
