// SPDX-License-Identifier: Apache-2.0
#include "plan/step_durations.hpp"

#include <gmock/gmock.h>

#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "answer/inputs_text.hpp"
#include "planning_command_fixture.hpp"

namespace spillway::tools {
namespace {

using ::testing::HasSubstr;

constexpr const char* kProcessor = "Fast 9000, 8 processors";

Trace recorded_there(const std::string& machine) {
  Trace trace = spillway::testing::layered_step(6);
  trace.machine = machine;
  return trace;
}

Machine machine_called(const std::string& name, const std::string& device) {
  Machine machine;
  machine.name = name;
  machine.device.name = device;
  return machine;
}

TEST(StepDurationsTest, TheFirstThatAppliesDecides) {
  using enum Durations;
  const Machine here = machine_called("here", kProcessor);
  const Machine card = machine_called("card", "Card 12 GB");
  const auto decided = [](const Trace& trace, const Machine& machine,
                          std::optional<Durations> asked = {}, const Plan* plan = nullptr) {
    const StepDurations found = step_durations(trace, machine, asked, plan);
    return std::pair(found.are, found.because);
  };
  const Trace there = recorded_there(kProcessor);
  EXPECT_EQ(decided(there, here), std::pair(kRecorded, Origin::kSameMachine));
  EXPECT_EQ(decided(there, card), std::pair(kEstimated, Origin::kElsewhere));
  EXPECT_EQ(decided(recorded_there("card"), card), std::pair(kRecorded, Origin::kSameMachine));
  EXPECT_EQ(decided(recorded_there(""), card), std::pair(kRecorded, Origin::kNotSaid));
  const Plan old;
  const Plan recorded{.durations = kRecorded, .recorded_on = kProcessor};
  const Plan estimated{.durations = kEstimated};
  for (const Plan* plan : {&recorded, &estimated}) {
    EXPECT_EQ(decided(there, here, {}, plan), std::pair(*plan->durations, Origin::kPlan));
    EXPECT_EQ(decided(there, card, {}, plan), std::pair(*plan->durations, Origin::kPlan));
  }
  EXPECT_EQ(decided(there, card, {}, &old), std::pair(kRecorded, Origin::kOldPlan));
  for (const Plan* plan : {&old, &recorded, &estimated}) {
    for (const Durations flag : {kRecorded, kEstimated}) {
      EXPECT_EQ(decided(there, card, flag, plan), std::pair(flag, Origin::kFlag));
    }
  }
  // The same step recorded again elsewhere: its durations are not those of the plan.
  const Trace again = recorded_there("Slow 1, 1 processor");
  EXPECT_EQ(decided(again, here, {}, &recorded), std::pair(kEstimated, Origin::kElsewhere));
  EXPECT_EQ(decided(again, here, {}, &estimated), std::pair(kEstimated, Origin::kPlan));
  Trace untimed = there;
  untimed.timed = false;
  EXPECT_EQ(decided(untimed, here, {}, &recorded), std::pair(kEstimated, Origin::kNotRecorded));
  EXPECT_THROW((void)decided(untimed, here, kRecorded), UserError);
}

TEST(StepDurationsTest, LinesFitATerminalWhateverTheNames) {
  const std::string longest(200, 'x');
  for (const std::string& name : {longest, std::string("card"), std::string()}) {
    for (const StepDurations& durations :
         std::initializer_list<StepDurations>{{Durations::kEstimated, Origin::kNotRecorded},
                                              {Durations::kEstimated, Origin::kElsewhere},
                                              {Durations::kRecorded, Origin::kSameMachine},
                                              {Durations::kRecorded, Origin::kNotSaid},
                                              {Durations::kRecorded, Origin::kOldPlan},
                                              {Durations::kRecorded, Origin::kPlan},
                                              {Durations::kEstimated, Origin::kPlan},
                                              {Durations::kRecorded, Origin::kFlag},
                                              {Durations::kEstimated, Origin::kFlag}}) {
      std::istringstream lines(
          durations_lines(durations, recorded_there(name), machine_called(longest, "")));
      for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
    }
  }
}

class PlannedDurationsTest : public PlanningCommandTest {
 protected:
  /// The trace as it says that it was recorded there.
  std::string step_of(const std::string& machine) {
    std::string file = path("step-of.json");
    write_trace(recorded_there(machine), file);
    return file;
  }
};

// The costs of the plan and of its alternatives are told with the plan's own durations.
TEST_F(PlannedDurationsTest, APlanKnowsWhatItsDurationsAre) {
  const std::vector<std::string> made{"plan",      trace(), "--budget",  "60%",
                                      "--planner", "lru",   "--machine", "v100-pcie"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::string plan = path("estimated.json");
  answer(with(made, {"--estimate-times", "-o", plan}));
  EXPECT_EQ(read_plan(plan).durations, Durations::kEstimated);
  const Json planned = json(with(made, {"--estimate-times"}));
  const Json recorded = json(made);
  ASSERT_NE(planned["compute_ns"], recorded["compute_ns"]) << "no difference to see";
  const Json simulated = json({"simulate", trace(), "--plan", plan});
  EXPECT_EQ(simulated["durations"], "estimated");
  for (const char* figure : {"compute_ns", "step_ns", "bound_ns", "stall_ns", "links"}) {
    EXPECT_EQ(simulated[figure], planned[figure]) << figure;
  }
  const Json explained = json({"explain", plan, "--top", "1"});
  EXPECT_EQ(explained["durations"], "estimated");
  EXPECT_LT(explained["decisions"][0]["unneeded_ns"].get<TimeNs>(),
            planned["compute_ns"].get<TimeNs>() + 1);
  EXPECT_THAT(answer({"explain", plan, "--top", "1"}).text,
              HasSubstr("durations     estimated from the machine's figures, as for the plan\n"));
  // A flag, or another machine, is another question.
  EXPECT_EQ(json({"simulate", trace(), "--plan", plan, "--recorded-times"})["compute_ns"],
            recorded["compute_ns"]);
  EXPECT_EQ(json({"simulate", trace(), "--plan", plan, "--machine", "v100-pcie"})["compute_ns"],
            planned["compute_ns"]);
  EXPECT_EQ(json({"simulate", trace(), "--plan", plan, "--machine", "h200"})["durations"],
            "recorded")
      << "where it was recorded is not said";
}

TEST_F(PlannedDurationsTest, AStepRecordedElsewhereIsEstimatedByAllCommands) {
  const std::string step = step_of(kProcessor);
  const auto all = [&](const std::vector<std::string>& more) {
    std::vector<Json> answers;
    for (std::vector<std::string> words :
         {std::vector<std::string>{"plan", step, "--planner", "lru", "--budget", "70%"},
          {"simulate", step},
          {"compare", step, "--planners", "lru", "--budget", "70%"},
          {"what-if", step, "--slowdown", "900%", "--planner", "lru"},
          {"what-if", step, step, "--planner", "lru"}}) {
      words.insert(words.end(), {"--machine", "v100-pcie"});
      words.insert(words.end(), more.begin(), more.end());
      answers.push_back(json(words));
    }
    return answers;
  };
  EXPECT_EQ(all({}), all({"--estimate-times"}));
  for (const Json& each : all({})) {
    EXPECT_EQ((each.is_array() ? each[0] : each)["durations"], "estimated") << each;
  }
  for (const Json& each : all({"--recorded-times"})) {
    EXPECT_EQ((each.is_array() ? each[0] : each)["durations"], "recorded") << each;
  }
  const std::string text = answer({"simulate", step}).text;
  EXPECT_THAT(text, HasSubstr("machine       h200, as none was named: see --machine\n"));
  EXPECT_THAT(text, HasSubstr("recorded on   Fast 9000, 8 processors\n"
                              "durations     estimated from the machine's figures; see "
                              "--recorded-times\n"));
}

TEST_F(PlannedDurationsTest, OfSeveralMachinesTheOneItWasRecordedForHasItsDurations) {
  const std::string step = step_of("v100-pcie");
  const std::vector<std::string> words{"what-if", step, "--machines", "--planner", "lru"};
  for (const Json& row : json(words)) {
    EXPECT_EQ(row["durations"], row["machine"] == "v100-pcie" ? "recorded" : "estimated");
  }
  EXPECT_THAT(answer(words).text,
              HasSubstr("*: durations as recorded, else estimated from the machine's figures.\n"));
}

TEST_F(PlannedDurationsTest, FlagsThatContradictAreRefused) {
  EXPECT_THAT(error({"plan", trace(), "--estimate-times", "--recorded-times"}),
              HasSubstr("--estimate-times does not go with --recorded-times"));
  EXPECT_THAT(error({"what-if", "--batch", "4", "--recorded-times", "--", "x", "{batch}"}),
              HasSubstr("--recorded-times does not go with --batch"));
}

}  // namespace
}  // namespace spillway::tools
