// SPDX-License-Identifier: Apache-2.0
// hybrid and the bound against the shortest schedule of all, on steps of four to seven ops.
//
// The search (exact_search.hpp) allows schedules that no plan can ask for, so that the best plan
// is between it and the best plan known: hybrid's, or the searched schedule written as a plan.
// Where the two agree, the optimum is proven. hybrid is held against the one below, the bound
// against the one above.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "../planner/plan_fixture.hpp"
#include "../planner/training_steps.hpp"
#include "exact_search.hpp"
#include "planner/planners.hpp"
#include "tiny_steps.hpp"

namespace spillway::planning {
namespace {

constexpr std::size_t kMostStates = 1'000'000;

struct Shape {
  std::string name;
  std::function<Trace(std::uint64_t seed)> make;
};

const Shape kChain2{"chain of 4", [](std::uint64_t seed) { return TinyStep(seed).chain(2); }};
const Shape kChain3{"chain of 6", [](std::uint64_t seed) { return TinyStep(seed).chain(3); }};
const Shape kBranch{"branch", [](std::uint64_t seed) { return TinyStep(seed).branch(); }};
const Shape kRead{"weight read",
                  [](std::uint64_t seed) { return TinyStep(seed).weights(1, false); }};
const Shape kWritten{"weight written",
                     [](std::uint64_t seed) { return TinyStep(seed).weights(1, true); }};
const Shape kTwo{"two weights", [](std::uint64_t seed) { return TinyStep(seed).weights(2, true); }};

class ExactOptimumTest : public PlanFixture {
 protected:
  void compare(const Shape& shape, std::uint64_t seed, double times, double bytes_per_second,
               bool with_disk = false) {
    const Trace trace = shape.make(seed);
    Machine machine = machine_with_links(bytes_per_second, 0, bytes_per_second / 2);
    Budgets all = budgets(trace, machine, times);
    all[Tier::kDisk] = Bytes{0};
    if (with_disk) {
      all[Tier::kHost] = Bytes{1'000'000};
      all[Tier::kDisk] = Bytes{kGiB};
    }
    const Problem problem{trace, machine, all};
    const auto hybrid = make(hybrid_planner(), problem);
    const TimeNs limit = hybrid ? hybrid->report.step_ns + 1 : TimeNs{1} << 40;
    const auto exact = exact_step(problem, limit, kMostStates);
    const std::string what = shape.name + " " + std::to_string(seed);
    if (!hybrid) {
      EXPECT_FALSE(exact) << what << ": hybrid has no plan, and there is one";
      return;
    }
    ASSERT_TRUE(exact) << what << ": hybrid is shorter than the shortest schedule";
    const TimeNs step = hybrid->report.step_ns;
    TimeNs known = step;
    for (const Plan& plan : exact->plans) {
      if (validate(plan, trace, problem.budgets)) continue;
      const SimulationOutcome outcome = simulate(problem, plan);
      const auto* report = std::get_if<SimulationReport>(&outcome);
      if (report != nullptr) known = std::min(known, report->step_ns);
    }
    const LowerBound bound = lower_bound(StepModel(problem));
    EXPECT_LE(bound.step_ns, known) << what;
    EXPECT_LE(exact->step_ns, known) << what;
    ++cases_;
    proven_ += exact->step_ns == known ? 1 : 0;
    const auto least = static_cast<double>(exact->step_ns);
    const double hybrid_over = static_cast<double>(step) / least;
    const double bound_over = static_cast<double>(bound.step_ns) / static_cast<double>(known);
    hybrid_ += hybrid_over;
    bound_ += bound_over;
    worst_hybrid_ = std::max(worst_hybrid_, hybrid_over);
    worst_bound_ = std::min(worst_bound_, bound_over);
    std::printf(
        "%-15s seed %2d budget %.2f link %.1f GB/s%s: optimum %.4f of the ops alone, known "
        "%.4f, hybrid %.4f, bound %.4f, %zu states\n",
        shape.name.c_str(), static_cast<int>(seed), times, bytes_per_second / 1e9,
        with_disk ? " disk" : "", least / static_cast<double>(bound.compute_ns),
        static_cast<double>(known) / least, hybrid_over, bound_over, exact->states);
  }

  void sum_up() const {
    std::printf(
        "%d cases, %d with the optimum proven: hybrid / optimum %.4f (worst %.4f), bound / "
        "optimum %.4f (worst %.4f)\n",
        cases_, proven_, hybrid_ / cases_, worst_hybrid_, bound_ / cases_, worst_bound_);
  }

  int cases_ = 0;
  int proven_ = 0;
  double hybrid_ = 0, bound_ = 0;
  double worst_hybrid_ = 1, worst_bound_ = 1;
};

TEST_F(ExactOptimumTest, HybridAndTheBoundAreNearTheShortestSchedule) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    for (const double link : {1e9, 4e9}) {
      for (const double times : {1.02, 1.25}) {
        for (const Shape& shape : {kChain2, kChain3, kBranch, kRead, kWritten}) {
          compare(shape, seed, times, link);
        }
      }
    }
  }
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    for (const double times : {1.02, 1.25}) {
      compare(kTwo, seed, times, 2e9);
      for (const Shape& shape : {kChain2, kChain3}) {
        compare(shape, seed, times, 2e9, true);
      }
    }
  }
  sum_up();
  ASSERT_GE(cases_, 30);
  EXPECT_GE(proven_, 80);
  EXPECT_LE(hybrid_ / cases_, 1.05);
  EXPECT_GE(bound_ / cases_, 0.9);
}

}  // namespace
}  // namespace spillway::planning
