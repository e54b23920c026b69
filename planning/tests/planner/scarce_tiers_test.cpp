// SPDX-License-Identifier: Apache-2.0
// Host and disk that have little more room than is needed: recorded networks whose passes once
// filled a tier before the room was there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plan_fixture.hpp"
#include "planner/planners.hpp"
#include "search/settings_search.hpp"
#include "spillway/machine/machine_io.hpp"
#include "spillway/planning/cost/roofline.hpp"
#include "spillway/planning/kernel_workspace.hpp"
#include "spillway/planning/workspace_margin.hpp"
#include "spillway/trace/trace_io.hpp"

namespace spillway::planning {
namespace {

/// A recording and what the tiers have.
struct Case {
  std::string_view recording;
  std::uint64_t device, host, disk;
};

class ScarceTiersTest : public PlanFixture {
 protected:
  static Trace recorded(std::string_view name) {
    const std::string path = fmt::format("{}/benchmarks/paper_tables/recordings/{}.json.zst",
                                         SPILLWAY_SOURCE_TREE, name);
    return timed_on(read_trace(path), machine());
  }
  static const Machine& machine() {
    static const Machine read =
        read_machine(fmt::format("{}/machines/m40.json", SPILLWAY_SOURCE_TREE));
    return read;
  }
};

TEST_F(ScarceTiersTest, WhatIsSaidToBeEnoughIs) {
  constexpr Case kCases[] = {
      {"alexnet-batch32", 400'000'000, 8'475'995, 423'799'796},
      {"alexnet-batch32", 329'270'373, 60'049'597, 420'000'000},
      {"vgg-depth16-batch8", 891'930'229, 0, 1'000'000'000},
      {"lstm_language_model-layers1-batch8", 146'920'469, 0, 19'293'024},
      {"resnet-depth50-batch16", 300'000'000, 10'485'760, 500'000'000},
  };
  int followed = 0;
  for (const Case& tight : kCases) {
    const Trace trace = recorded(tight.recording);
    const Problem problem{
        trace, machine(), {{Bytes{tight.device}, Bytes{tight.host}, Bytes{tight.disk}}}};
    const PlanOutcome outcome =
        hybrid_planner().plan(problem, Options(hybrid_planner().options()), short_search());
    const auto* answer = std::get_if<Infeasible>(&outcome);
    ASSERT_TRUE(answer) << tight.recording << " fits";
    for (const Tier tier : kTiers) {
      const Bytes missing = answer->short_by[index_of(tier)];
      if (missing == Bytes{0}) continue;
      Budgets enough = problem.budgets;
      enough[tier] += missing;
      EXPECT_TRUE(make(hybrid_planner(), problem.with(enough)))
          << tight.recording << ": " << to_string(missing) << " more " << to_string(tier);
      ++followed;
    }
  }
  EXPECT_GE(followed, 10);
}

TEST_F(ScarceTiersTest, WhatFitsIntoLessFitsIntoMore) {
  Trace trace = recorded("resnet-depth50-batch16");
  const std::vector<std::uint8_t> known = lend_workspace(trace, machine());
  const Bytes margin = workspace_margin(trace, kWorkspaceShare, known);
  bool fitted = false;
  for (const std::uint64_t device : {380U, 390U, 400U, 405U, 410U, 415U, 420U, 440U}) {
    const Problem problem{trace, machine(),
                          leaving_free({{kMiB * device, kMiB * 10, kMiB * 534}}, margin)};
    const bool fits = make(hybrid_planner(), problem).has_value();
    EXPECT_TRUE(fits || !fitted) << device << " MiB";
    fitted = fitted || fits;
  }
  EXPECT_TRUE(fitted);
}

// A storage that a recomputation read leaves when the recomputation has run, and is queued to come
// back before the same op: it stays instead. And copies are made no earlier than their tier has
// room for them.
TEST_F(ScarceTiersTest, DraftsOfPassesThatFitMakePlans) {
  int fitting = 0;
  int right = 0;
  for (const Case& tight : {Case{"alexnet-batch32", 329'270'373, 0, 600'495'968},
                            Case{"alexnet-batch32", 329'270'373, 60'049'597, 540'446'371},
                            Case{"vgg-depth16-batch8", 891'930'229, 631'557'786, 631'557'786}}) {
    const Trace trace = recorded(tight.recording);
    const Problem problem{
        trace, machine(), {{Bytes{tight.device}, Bytes{tight.host}, Bytes{tight.disk}}}};
    const StepModel model(problem);
    SweepSettings base;
    base.by_size = true;
    for (const SweepSettings& settings : settings_for_less_room(model, base)) {
      const SweepResult result = sweep(model, settings);
      if (!result.feasible) continue;
      ++fitting;
      const Plan plan = write_plan(problem, model, result.draft, "a pass");
      const auto flaw = validate(plan, trace, problem.budgets);
      right += flaw ? 0 : 1;
      if (!flaw) continue;
      EXPECT_TRUE(flaw->flaw == PlanFlaw::kHostOverfull || flaw->flaw == PlanFlaw::kDiskOverfull)
          << flaw->text;
    }
  }
  EXPECT_GT(fitting, 100);
  // The others' steps do not end as they begin however often they are passed through.
  EXPECT_GE(10 * right, 7 * fitting) << right << " of " << fitting;
}

}  // namespace
}  // namespace spillway::planning
