// SPDX-License-Identifier: Apache-2.0
// Every option of every planner of the literature does something: some step is planned otherwise
// with it. hybrid's options have tests of their own, as has the choice of workspaces.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plan_fixture.hpp"
#include "planner/planners.hpp"
#include "spillway/planning/registry.hpp"
#include "spillway/testing/small_steps.hpp"
#include "training_steps.hpp"

namespace spillway::planning {
namespace {

struct Ablation {
  std::string planner, option, value;
  /// Options set in both plans, without which this one would not be looked at.
  std::vector<std::pair<std::string, std::string>> with{};
};

const std::vector<Ablation>& ablations() {
  static const std::vector<std::pair<std::string, std::string>> as_given{{"tune", "off"}};
  static const std::vector<std::pair<std::string, std::string>> eagerly{{"tensor-cache", "off"}};
  static const std::vector<Ablation> all{
      {"swap-critical-path", "least-bytes", "900000"},
      {"swap-critical-path", "lead", "0"},
      {"lms", "tune", "off"},
      {"lms", "threshold", "12", as_given},
      {"lms", "ahead", "6", as_given},
      {"lms", "groupby", "60", as_given},
      {"lms", "sync-mode", "1", as_given},
      {"lms", "sync-mode", "2", as_given},
      {"lms", "sync-mode", "3", as_given},
      {"lms", "serialization-by-size", "0.0005", as_given},
      {"lms", "memory-ratio", "0.7"},
      {"partitioned", "partition-size", "7"},
      {"partitioned", "distance", "3"},
      {"partitioned", "ahead", "0"},
      {"partitioned", "variables-on-host", "off"},
      {"superneurons", "offload", "off", eagerly},
      {"superneurons", "tensor-cache", "off"},
      {"superneurons", "recompute", "none"},
      {"superneurons", "recompute", "speed"},
      {"superneurons", "recompute", "memory"},
      {"superneurons", "prefetch", "off", eagerly},
      {"chain-recompute", "segments", "2"},
      {"chain-recompute", "only-if-short", "off"},
      {"lru", "victims", "least-recent"},
      {"unified-memory", "fault-ns", "1"},
  };
  return all;
}

/// Two ops far behind that of `a`, and near each other, read it.
Trace read_twice_far_behind() {
  testing::StepBuilder step;
  const StorageId a = step.temporary(4'000, "a");
  StorageId before = step.temporary(3'000, "x");
  step.op(10'000, {.creates = {a, before}});
  constexpr int kChain = 16;
  for (int i = 0; i < kChain; ++i) {
    const StorageId next = step.temporary(3'000, "x");
    std::vector<StorageId> reads{before};
    std::vector<StorageId> frees{before};
    if (i == kChain - 4 || i == kChain - 1) reads.push_back(a);
    if (i == kChain - 1) frees.push_back(a);
    step.op(10'000, {.creates = {next}, .reads = reads, .frees = frees});
    before = next;
  }
  step.op(10'000, {.reads = {before}, .frees = {before}});
  return step.build();
}

// Before the turn of the step two segments, each of a heavy op and three cheap ones whose outputs
// the backward pass reads in turn, the last first. Those of the second are larger together than any
// op's working set.
Trace two_segments() {
  testing::StepBuilder step;
  std::vector<StorageId> saved;
  std::vector<StorageId> reads;
  for (const std::uint64_t bytes : {1'000U, 10'000U}) {
    for (int i = 0; i < 4; ++i) {
      saved.push_back(step.temporary(i == 0 ? 10'000 : bytes, "saved"));
      step.op(static_cast<TimeNs>(i == 0 ? 1'000'000 : bytes / 10),
              {.creates = {saved.back()}, .reads = reads, .recomputable = true});
      reads = {saved.back()};
    }
  }
  while (!saved.empty()) {
    const StorageId gradient = step.temporary(5'000, "gradient");
    std::vector<StorageId> dead{saved.back()};
    std::vector<StorageId> read{saved.back()};
    if (saved.size() < 8) read.insert(read.end(), reads.begin(), reads.end());
    if (saved.size() < 8) dead.insert(dead.end(), reads.begin(), reads.end());
    step.op(500, {.creates = {gradient}, .reads = read, .frees = dead});
    reads = {gradient};
    saved.pop_back();
  }
  step.op(500, {.reads = reads, .frees = reads});
  return step.build();
}

class OptionsTest : public PlanFixture {
 protected:
  static bool differ(const Plan& a, const Plan& b) {
    return a.actions != b.actions || a.places != b.places || a.page_fault_ns != b.page_fault_ns;
  }

  /// Whether the option changes the plan for the problem; without a plan for one of the two, which
  /// may be what the option is for, it does too.
  static bool changes(const Ablation& ablation, const Problem& problem) {
    const Planner& planner = planner_named(ablation.planner);
    Options options(planner.options());
    for (const auto& [name, value] : ablation.with) options.set(name, std::string_view(value));
    const auto before = make(planner, problem, options);
    options.set(ablation.option, std::string_view(ablation.value));
    const auto after = make(planner, problem, options);
    if (before.has_value() != after.has_value()) return true;
    return before && differ(before->plan, after->plan);
  }
};

TEST_F(OptionsTest, EveryOptionOfEveryPlannerChangesSomePlan) {
  std::vector<Trace> traces{read_twice_far_behind(), two_segments()};
  for (const std::uint64_t seed : {3U, 8U}) {
    traces.push_back(
        TrainingStep({.seed = seed, .layers = 14, .middle_dies = seed % 2 == 0}).build());
  }
  const Machine machine = machine_with_links(3e9, 500);
  for (const Ablation& ablation : ablations()) {
    bool changed = false;
    for (const Trace& trace : traces) {
      for (const double times : {2.0, 4.0, 7.0, 1000.0}) {
        if (changed) break;
        changed = changes(ablation, {trace, machine, budgets(trace, machine, times)});
      }
    }
    EXPECT_TRUE(changed) << ablation.planner << " --" << ablation.option;
  }
}

// The last output of the second segment is still there when it is read. Speed: what a segment lacks
// is run again once, 3 + 2 ops. Memory: for each use anew, (3 + 2 + 1) + (2 + 1).
// Cost-aware: the small segment once, the large one for each use.
TEST_F(OptionsTest, StrategiesOfRecomputingDifferInRuns) {
  const Trace trace = two_segments();
  const Machine machine = machine_with_links(1e9);
  for (const double times : {1.8, 2.5}) {
    const Problem problem{trace, machine, budgets(trace, machine, times)};
    for (const auto& [strategy, runs] : {std::pair{"none", 0U}, std::pair{"speed", 5U},
                                         std::pair{"memory", 9U}, std::pair{"cost-aware", 6U}}) {
      Options options(superneurons_planner().options());
      options.set("recompute", std::string_view(strategy));
      const auto plan = make(superneurons_planner(), problem, options);
      ASSERT_TRUE(plan) << strategy;
      EXPECT_EQ(plan->report.recomputations, runs) << strategy << " at " << times;
    }
  }
}

// 1 waits for copies out alone, 2 for copies in, 3 for both.
TEST_F(OptionsTest, SyncModesWaitForWhatTheyName) {
  const Trace trace = TrainingStep({.seed = 3, .layers = 14}).build();
  const Machine machine = machine_with_links(3e9, 500);
  const Problem problem{trace, machine, budgets(trace, machine, 4.0)};
  struct Waits {
    int out = 0, in = 0;
  };
  const auto waits_of = [&](std::string_view mode) {
    Options options(lms_planner().options());
    options.set("tune", std::string_view("off"));
    options.set("sync-mode", mode);
    const auto plan = make(lms_planner(), problem, options);
    Waits waits;
    if (!plan) {
      ADD_FAILURE() << mode;
      return waits;
    }
    const auto& actions = plan->plan.actions;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].kind != PlanActionKind::kWait) continue;
      std::size_t copy = i;  // what the storage did last before
      while (actions[copy].storage != actions[i].storage ||
             actions[copy].kind == PlanActionKind::kWait) {
        --copy;
      }
      (actions[copy].kind == PlanActionKind::kFetch ? waits.in : waits.out) += 1;
    }
    return waits;
  };
  for (const auto& [mode, out, in] : {std::tuple{"0", false, false}, std::tuple{"1", true, false},
                                      std::tuple{"2", false, true}, std::tuple{"3", true, true}}) {
    const Waits waits = waits_of(mode);
    EXPECT_EQ(waits.out > 0, out) << mode;
    EXPECT_EQ(waits.in > 0, in) << mode;
  }
}

TEST_F(OptionsTest, NoOptionIsLeftOut) {
  std::set<std::pair<std::string, std::string>> tested{{"superneurons", "workspace"}};
  for (const Ablation& ablation : ablations()) tested.emplace(ablation.planner, ablation.option);
  for (const Planner* planner : planners()) {
    if (planner->name() == "hybrid") continue;
    for (const OptionField& field : planner->options()) {
      EXPECT_TRUE(tested.contains({std::string(planner->name()), std::string(field.name)}))
          << planner->name() << " --" << field.name;
    }
  }
}

}  // namespace
}  // namespace spillway::planning
