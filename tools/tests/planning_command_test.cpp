// SPDX-License-Identifier: Apache-2.0
#include "answer/planning_answer.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "cli/command_line.hpp"
#include "machine/machine_lookup.hpp"
#include "plan/planner_run.hpp"
#include "plan/planning_inputs.hpp"
#include "planning_command_fixture.hpp"
#include "spillway/base/error.hpp"
#include "spillway/plan/plan_io.hpp"
#include "spillway/planning/registry.hpp"
#include "spillway/testing/random_steps.hpp"
#include "spillway/trace/trace_io.hpp"
#include "trace/trace_command.hpp"

namespace spillway::tools {
namespace {

using ::testing::HasSubstr;

TEST_F(PlanningCommandTest, FlagsBecomeValues) {
  const PlanningRequest request =
      parsed({"plan",      "step.json", "--budget",  "12GiB",  "--host",    "64GiB", "--disk=1TiB",
              "--machine", "m40",       "--planner", "hybrid", "--refine",  "off",   "--time-limit",
              "500ms",     "--seed",    "all",       "-o",     "plan.json", "--json"});
  EXPECT_EQ(request.command, PlanningRequest::Command::kPlan);
  EXPECT_EQ(request.files, std::vector<std::string>{"step.json"});
  EXPECT_EQ(request.device_budgets, std::vector<std::string>{"12GiB"});
  EXPECT_EQ(request.host_budget, "64GiB");
  EXPECT_EQ(request.disk_budget, "1TiB");
  EXPECT_EQ(request.machine, "m40");
  EXPECT_EQ(request.time_limit_ns, 500'000'000);
  EXPECT_TRUE(request.seed_all);
  EXPECT_TRUE(request.json);
  ASSERT_EQ(request.options.size(), 1U);
  EXPECT_EQ(request.options[0].first, "refine");
  EXPECT_EQ(parsed({"compare", "t", "--budget", "1GiB,2GiB"}).device_budgets.size(), 2U);
  const PlanningRequest behind = parsed({"compare", "--budget", "1GiB,2GiB", "t"});
  EXPECT_EQ(behind.files, std::vector<std::string>{"t"}) << "no budget, though it follows one";
  EXPECT_EQ(behind.device_budgets.size(), 2U);
  EXPECT_EQ(parsed({"what-if", "t", "--slowdown", "5%"}).slowdown, 0.05);
}

TEST_F(PlanningCommandTest, EveryOptionOfEveryPlannerIsAFlag) {
  for (const planning::Planner* planner : planning::planners()) {
    for (const planning::OptionField& field : planner->options()) {
      const std::string flag = (field.name == "disk" ? "--use-" : "--") + std::string(field.name);
      std::vector<std::string> words{"plan",      "t",
                                     "--planner", std::string(planner->name()),
                                     flag,        planning::to_string(field.fallback)};
      const bool tunes =
          planner->name() == "lms" && field.name != "tune" && field.name != "memory-ratio";
      if (tunes) words.insert(words.end(), {"--tune", "off"});
      const PlanningRequest request = parsed(words);
      ASSERT_EQ(request.options.size(), tunes ? 2U : 1U) << flag;
      EXPECT_GT(field.meaning.size(), 20U) << flag;
      EXPECT_EQ(field.meaning.back(), '.') << flag;
    }
  }
}

TEST_F(PlanningCommandTest, MistakesAreNamed) {
  EXPECT_THAT(error({"plan"}), HasSubstr("No file: spillway plan TRACE"));
  EXPECT_THAT(error({"plan", trace(), trace()}), HasSubstr("takes one file"));
  EXPECT_THAT(error({"plan", trace(), "--planner", "hybird"}),
              HasSubstr("Did you mean \"hybrid\""));
  EXPECT_THAT(error({"plan", trace(), "--machine", "h20"}), HasSubstr("Did you mean \"h200\""));
  EXPECT_THAT(error({"plan", trace(), "--time-limit", "soon"}), HasSubstr("a time such as 2s"));
  for (const char* share : {"nan%", "inf%", "-3%", "0%", "1e30%", "%"}) {
    EXPECT_THAT(error({"plan", trace(), "--budget", share}), HasSubstr("a share such as 60%"));
  }
  EXPECT_THAT(error({"plan", path("absent")}), HasSubstr("cannot be read"));
  EXPECT_THAT(error({"what-if", trace(), "--slowdown", "5"}), HasSubstr("a share such as 5%"));
}

TEST_F(PlanningCommandTest, WhatWouldNotBeUsedIsRefused) {
  EXPECT_THAT(error({"plan", "t", "--budget", "12GiB,6GiB"}),
              HasSubstr("One --budget at a time, not \"6GiB\" too: spillway compare takes more"));
  EXPECT_THAT(error({"simulate", "t", "--budget", "60%", "--budget", "50%"}),
              HasSubstr("One --budget at a time"));
  for (const char* flag : {"--budget", "--host", "--disk"}) {
    EXPECT_THAT(error({"explain", "p", flag, "1GiB"}),
                HasSubstr(std::string("Unknown flag \"") + flag + "\" of spillway explain"));
    if (std::string_view(flag) == "--budget") continue;
    EXPECT_THAT(error({"simulate", "t", flag, "1GiB"}),
                HasSubstr(std::string(flag) + " means nothing without --plan FILE"));
  }
  EXPECT_THAT(error({"simulate", "t", "--timeline"}), HasSubstr("nothing without --json"));
  EXPECT_THAT(error({"what-if", "t", "--slowdown", "5%", "--budget", "1GiB"}),
              HasSubstr("--budget does not go with --slowdown"));
  EXPECT_THAT(error({"what-if", "t", "u", "--slowdown", "5%"}), HasSubstr("A second trace"));
  EXPECT_THAT(error({"what-if", "t", "--machines", "--slowdown", "5%"}),
              HasSubstr("--slowdown does not go with --machines"));
  EXPECT_THAT(error({"what-if", "t", "--machines", "--machine", "m40"}),
              HasSubstr("--machine does not go with --machines"));
  EXPECT_THAT(error({"what-if", "t", "u", "--machines"}), HasSubstr("A second trace"));
  EXPECT_THAT(error({"compare", "t", "--planners", ","}),
              HasSubstr("--planners \",\" names none: give lru,hybrid"));
}

TEST_F(PlanningCommandTest, OptionsBelongToAPlannerThatRuns) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"plan", "t", "--planner", "lru"},
        {"what-if", "t", "--planner", "lru"},
        {"compare", "t", "--planners", "lru"}}) {
    const auto with = [&](const std::string& flag, const std::string& value) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {flag, value});
      return error(words);
    };
    EXPECT_THAT(with("--fault-ns", "7"),
                HasSubstr("--fault-ns is no option of the planner lru: it belongs to the planner "
                          "unified-memory."));
    EXPECT_THAT(with("--victims", "random"), HasSubstr("not one of furthest, least-recent"));
    EXPECT_THAT(with("--seed", "all"), HasSubstr("--seed means nothing to the planner lru: only "
                                                 "the planner hybrid searches."));
    EXPECT_THAT(with("--time-limit", "1s"), HasSubstr("--time-limit means nothing"));
  }
  EXPECT_THAT(error({"compare", "t", "--planners", "lru,lms", "--fault-ns", "7"}),
              HasSubstr("no option of the planners lru, lms"));
  // One of several planners that run is enough.
  EXPECT_EQ(parsed({"compare", "t", "--fault-ns", "7", "--seed", "all"}).options.size(), 1U);
}

TEST_F(PlanningCommandTest, AMachineIsAFileByItsEndingOrASlash) {
  for (const char* file : {"here.json", "./here", "../m", "/m/here.machine"}) {
    EXPECT_TRUE(is_machine_file(file)) << file;
  }
  for (const char* name : {"h200", "h200.1", "json", "here.jso"}) {
    EXPECT_FALSE(is_machine_file(name)) << name;
  }
  EXPECT_THAT(error({"plan", trace(), "--machine", "h200.1"}), HasSubstr("There is no machine"));
  EXPECT_THAT(error({"plan", trace(), "--machine", "h200.json"}), HasSubstr("cannot be read"));
}

TEST_F(PlanningCommandTest, APlanIsMadeSimulatedAndExplained) {
  const Answer made = answer({"plan", trace(), "--budget", "70%", "--planner", "lru", "--machine",
                              "v100-pcie", "-o", path("p.json")});
  EXPECT_EQ(made.status, 0);
  EXPECT_THAT(made.text, HasSubstr("planner       lru"));
  EXPECT_THAT(made.text, HasSubstr("bound "));
  EXPECT_THAT(made.text, HasSubstr("\nplan          written to " + path("p.json") + "\n"));
  const Plan plan = read_plan(path("p.json"));
  EXPECT_EQ(plan.trace, trace());
  EXPECT_EQ(plan.machine, "v100-pcie");
  EXPECT_FALSE(plan.actions.empty());

  const Json planned =
      json({"plan", trace(), "--budget", "70%", "--planner", "lru", "--machine", "v100-pcie"});
  const Json simulated = json({"simulate", trace(), "--plan", path("p.json"), "--timeline",
                               "--perfetto", path("perfetto.json")});
  EXPECT_EQ(simulated["step_ns"], planned["step_ns"]);
  EXPECT_GE(planned["step_ns"].get<TimeNs>(), planned["bound_ns"].get<TimeNs>());
  EXPECT_EQ(simulated["bound"], planned["bound"]);
  EXPECT_EQ(simulated["bound_ns"], planned["bound_ns"]);
  EXPECT_THAT(answer({"simulate", trace(), "--plan", path("p.json")}).text, HasSubstr("\nbound "));
  EXPECT_FALSE(simulated["timeline"]["spans"].empty());
  const Json& levels = simulated["timeline"]["levels"];
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    std::uint64_t by_role = 0;
    for (const Json& held : simulated["timeline"]["roles"]) {
      ASSERT_EQ(held.size(), levels.size());
      by_role += held[i].get<std::uint64_t>();
    }
    EXPECT_EQ(by_role, levels[i][1]);
    most = std::max(most, by_role);
  }
  EXPECT_EQ(most, simulated["peak"]["device"]["bytes"]);
  EXPECT_LE(simulated["peak"]["device"]["bytes"], simulated["budgets"]["device"]);
  std::ifstream file(path("perfetto.json"));
  EXPECT_GT(Json::parse(file)["traceEvents"].size(), 100U);

  const Answer explained = answer({"explain", path("p.json"), "--top", "3"});
  EXPECT_THAT(explained.text, HasSubstr("evict to host"));
  EXPECT_THAT(explained.text, HasSubstr("why: not needed for"));
  EXPECT_THAT(explained.text, HasSubstr("if left alone: "));
  const Json decisions = json({"explain", path("p.json"), "--top", "3"})["decisions"];
  EXPECT_EQ(decisions.size(), 3U);
  for (const Json& decision : decisions) {
    EXPECT_EQ(decision["if_kept"], decision["otherwise"]["left-alone"]);
  }
}

TEST_F(PlanningCommandTest, WhatBindsIsInTheJsonToo) {
  const std::vector<std::string> words{"plan",      trace(), "--budget",  "30%",
                                       "--planner", "lru",   "--machine", "v100-pcie"};
  const std::string text = answer(words).text;
  const Json bound = json(words)["bound"];
  const std::string marker = "what binds: ";
  ASSERT_THAT(text, HasSubstr(marker));
  const std::size_t begin = text.find(marker) + marker.size();
  const std::string cause = text.substr(begin, text.find('\n', begin) - begin);
  EXPECT_EQ(bound["binds"], cause);
  EXPECT_GT(bound["extra_ns"][cause], 0);
  EXPECT_EQ(bound["step_ns"], json(words)["bound_ns"]);
  EXPECT_EQ(json({"plan", trace(), "--planner", "lru", "--budget", "100%"})["bound"]["binds"],
            "computing");
}

TEST_F(PlanningCommandTest, WhereDurationsAreFromIsSaid) {
  EXPECT_THAT(
      answer({"simulate", trace()}).text,
      HasSubstr(
          "\ndurations     as recorded, the trace does not say where; see --estimate-times\n"));
  EXPECT_THAT(answer({"simulate", trace(), "--estimate-times"}).text,
              HasSubstr("durations     estimated from the machine's figures\n"));
  Trace elsewhere = spillway::testing::layered_step(6);
  elsewhere.machine = "v100-pcie";
  write_trace(elsewhere, path("elsewhere.json"));
  EXPECT_THAT(
      answer({"compare", path("elsewhere.json"), "--planners", "lru", "--machine", "v100-pcie"})
          .text,
      HasSubstr("machine       v100-pcie\nrecorded on   v100-pcie\n"
                "durations     as recorded; see --estimate-times\n"));
  EXPECT_THAT(answer({"simulate", path("elsewhere.json"), "--recorded-times"}).text,
              HasSubstr("durations     as recorded, on another machine\n"));
  elsewhere.timed = false;
  std::fill(elsewhere.ops.duration_ns.begin(), elsewhere.ops.duration_ns.end(), 0);
  write_trace(elsewhere, path("elsewhere.json"));
  EXPECT_THAT(answer({"plan", path("elsewhere.json"), "--planner", "lru"}).text,
              HasSubstr("durations     estimated from the machine's figures\n"));
}

TEST_F(PlanningCommandTest, WithoutAPlanAStepTakesItsOps) {
  const Json result = json({"simulate", trace()});
  EXPECT_EQ(result["step_ns"], result["compute_ns"]);
  EXPECT_FALSE(result.contains("bound"));
  const Answer too_small = answer({"simulate", trace(), "--budget", "1MiB"});
  EXPECT_EQ(too_small.status, kNoPlanFits);
  EXPECT_THAT(too_small.text, HasSubstr("short "));
}

TEST_F(PlanningCommandTest, NoPlanIsAnAnswerWithNeedHaveAndShort) {
  const Answer result = answer({"plan", trace(), "--planner", "lru", "--budget", "1MiB"});
  EXPECT_EQ(result.status, kNoPlanFits);
  EXPECT_THAT(result.text, HasSubstr("No plan fits the budgets."));
  EXPECT_THAT(result.text, HasSubstr("need "));
  EXPECT_THAT(result.text, HasSubstr("short "));
  const Json same = json({"plan", trace(), "--planner", "lru", "--budget", "1MiB"});
  EXPECT_EQ(same["feasible"], false);
}

TEST_F(PlanningCommandTest, WorkspaceThatTheTraceDoesNotKnowIsLeftFree) {
  Trace quiet = spillway::testing::layered_step(6);
  quiet.workspace_known = false;
  write_trace(quiet, path("quiet.json"));
  const auto planned = [](const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> words{"plan", file, "--planner", "lru", "--budget"};
    words.insert(words.end(), more.begin(), more.end());
    return json(words);
  };
  const Json margin = planned(path("quiet.json"), {"90%"});
  const Json none = planned(path("quiet.json"), {"90%", "--workspace-margin", "0"});
  const Json known = planned(trace(), {"90%"});
  EXPECT_GT(margin["workspace_margin"], 0);
  EXPECT_EQ(margin["budgets"]["device"].get<std::int64_t>() +
                margin["workspace_margin"].get<std::int64_t>(),
            none["budgets"]["device"].get<std::int64_t>());
  EXPECT_EQ(none["workspace_margin"], 0);
  EXPECT_EQ(known["workspace_margin"], 0) << "recorded with its kernels";
  EXPECT_THAT(answer({"plan", path("quiet.json"), "--planner", "lru"}).text,
              HasSubstr("\nleft free     "));
  // A plan knows of it, so that what is simulated later is within the same whole budget.
  const std::string plan = path("quiet-plan.json");
  answer({"plan", path("quiet.json"), "--planner", "lru", "--budget", "90%", "-o", plan});
  const Json again = json({"simulate", path("quiet.json"), "--plan", plan});
  EXPECT_EQ(again["workspace_margin"], margin["workspace_margin"]);
  EXPECT_EQ(again["budgets"], margin["budgets"]);
  EXPECT_EQ(json({"simulate", path("quiet.json"), "--plan", plan, "--budget", "90%"})["budgets"],
            margin["budgets"]);
  EXPECT_THAT(answer({"simulate", path("quiet.json"), "--plan", plan}).text,
              HasSubstr(" for workspace, as in the plan\n"));
  // The budget that is said to fit does, margin included.
  const Json refused = planned(path("quiet.json"), {"1MiB"});
  const std::uint64_t fits = refused["smallest_budget"];
  EXPECT_TRUE(planned(path("quiet.json"), {std::to_string(fits) + "B"})["feasible"]);
  EXPECT_FALSE(planned(path("quiet.json"), {std::to_string(fits / 2) + "B"})["feasible"]);
  EXPECT_THAT(refused["remedies"].dump(), HasSubstr(to_string(Bytes{fits})));
  // The shortage is measured against the stated budget, not what the margin leaves of it.
  EXPECT_EQ(refused["short"]["device"], fits - kMiB.count);
  EXPECT_THAT(answer({"plan", path("quiet.json"), "--planner", "lru", "--budget", "1MiB"}).text,
              HasSubstr(fmt::format("need {}, have 1 MiB, short {}", to_string(Bytes{fits}),
                                    to_string(Bytes{fits} - kMiB))));
}

// The same step with and without its kernels has the same floor once the machine's file tells.
TEST_F(PlanningCommandTest, WorkspaceOfARunIsLentToTheSameStepWithoutKernels) {
  Trace ran = spillway::testing::layered_step(6);
  for (std::size_t op = 0; op < ran.ops.size(); ++op) {
    ran.ops.bytes_touched[op] = Bytes{1'000 + op};
    ran.ops.workspace[op] = kMiB * (op % 5);
  }
  write_trace(ran, path("ran.json"));
  Trace quiet = ran;
  std::fill(quiet.ops.workspace.begin(), quiet.ops.workspace.end(), Bytes{});
  quiet.workspace_known = false;
  write_trace(quiet, path("quiet.json"));
  const auto view = std::get<TraceRequest>(
      parse_command_line({{"trace", "workspace", path("ran.json"), "--machine", "v100-pcie", "-o",
                           path("mine.json"), "--json"}}));
  EXPECT_EQ(Json::parse(trace_text(view))["new"], ran.ops.size());
  const auto smallest = [&](const std::string& file, const std::string& machine) {
    return json({"plan", file, "--planner", "lru", "--budget", "1MiB", "--machine",
                 machine})["smallest_budget"];
  };
  const Json truth = smallest(path("ran.json"), "v100-pcie");
  EXPECT_EQ(smallest(path("quiet.json"), path("mine.json")), truth);
  EXPECT_NE(smallest(path("quiet.json"), "v100-pcie"), truth);
  const std::vector<std::string> words{"plan", path("quiet.json"), "--planner",
                                       "lru",  "--machine",        path("mine.json")};
  EXPECT_EQ(json(words)["workspace_margin"], 0);
  EXPECT_THAT(
      answer(words).text,
      HasSubstr(fmt::format("workspace of {0} of {0} ops is the machine's", ran.ops.size())));
}

TEST_F(PlanningCommandTest, MoreHostMemoryThanCanBePageLockedIsNoted) {
  const auto planned = [&](const std::string& host) {
    return answer({"plan", trace(), "--machine", "m40", "--budget", "90%", "--host", host}).text;
  };
  EXPECT_THAT(planned("64GiB"), HasSubstr("only 32 GiB of the host's 64 GiB can be page-locked"));
  EXPECT_THAT(planned("32GiB"), ::testing::Not(HasSubstr("page-locked")));
}

TEST_F(PlanningCommandTest, WhatTuningSearchesForIsNoFlag) {
  const std::vector<std::string> words{"plan", trace(), "--planner", "lms", "--ahead", "2"};
  EXPECT_THAT(error(words), HasSubstr("--ahead means nothing while --tune is on"));
  std::vector<std::string> untuned = words;
  untuned.insert(untuned.end(), {"--tune", "off"});
  EXPECT_EQ(error(untuned), "no error");
}

TEST_F(PlanningCommandTest, WhatOnlyTuningUsesIsNoFlagWithoutIt) {
  std::vector<std::string> words{"plan", trace(), "--planner", "lms", "--memory-ratio", "0.5"};
  EXPECT_EQ(error(words), "no error");
  words.insert(words.end(), {"--tune", "off"});
  EXPECT_THAT(error(words), HasSubstr("--memory-ratio means nothing with --tune off"));
}

TEST_F(PlanningCommandTest, WhereNothingFitsTheStatusSaysSo) {
  Trace large = spillway::testing::layered_step(6);
  for (Bytes& bytes : large.storages.bytes) bytes.count *= 1'000'000;
  write_trace(large, path("large.json"));
  const std::string file = path("large.json");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"compare", trace(), "--budget", "1MiB,2MiB"},
        {"what-if", file, "--machines"},
        {"what-if", file, file}}) {
    std::vector<std::string> lru = words;
    const bool compares = words.front() == "compare";
    lru.insert(lru.end(), {compares ? "--planners" : "--planner", "lru"});
    EXPECT_EQ(answer(lru).status, kNoPlanFits) << words[0] << words[2];
    lru.emplace_back("--json");
    EXPECT_EQ(answer(lru).status, kNoPlanFits) << words[0] << words[2];
  }
  // One that fits is enough.
  EXPECT_EQ(answer({"compare", trace(), "--budget", "1MiB,90%", "--planners", "lru"}).status, 0);
  EXPECT_EQ(answer({"what-if", file, trace(), "--planner", "lru"}).status, 0);
}

TEST_F(PlanningCommandTest, PlannersAreComparedAtSeveralBudgets) {
  const Answer table = answer({"compare", trace(), "--planners", "lru,unified-memory", "--budget",
                               "90%,60%", "--machine", "v100-pcie"});
  EXPECT_THAT(table.text, HasSubstr("\nlru  "));
  EXPECT_THAT(table.text, HasSubstr("lower bound"));
  EXPECT_THAT(table.text, HasSubstr("%*"));
  EXPECT_THAT(table.text, HasSubstr("\n*: on the front below\n"));
  EXPECT_THAT(table.text, HasSubstr("\nfront: less memory only for a longer step"));
  const Json points = json({"compare", trace(), "--planners", "lru,unified-memory", "--budget",
                            "90%,60%", "--machine", "v100-pcie"});
  EXPECT_EQ(points["points"].size(), 4U);
  EXPECT_EQ(points["bound"].size(), 2U);
  EXPECT_TRUE(points["bound"][0].contains("binds"));
}

TEST_F(PlanningCommandTest, WhereNoPlannerHasAPlanThereIsNoBound) {
  const std::vector<std::string> words{"compare",  trace(),    "--planners", "lru",
                                       "--budget", "90%,1MiB", "--machine",  "v100-pcie"};
  EXPECT_THAT(answer(words).text, ::testing::ContainsRegex("\nlower bound +[0-9.]+ % +- \n"));
  const Json answered = json(words);
  ASSERT_EQ(answered["bound"].size(), 1U);
  EXPECT_EQ(answered["bound"][0]["budget_bytes"], answered["points"][0]["budget_bytes"]);
}

TEST_F(PlanningCommandTest, APlannerThatSearchesSaysHowFarItIs) {
  const Trace trace = read_trace(this->trace());
  const Machine machine = find_machine("v100-pcie");
  Budgets budgets = capacities(machine);
  budgets[Tier::kDevice] = device_budget("50%", trace);
  for (const planning::Planner* planner : planning::planners()) {
    std::map<std::string, double> done;
    planning::PlanningContext context;
    context.progress = [&](double share, std::string_view doing) {
      double& before = done[std::string(doing)];
      EXPECT_GE(share, before);
      EXPECT_LE(share, 1);
      before = share;
    };
    (void)planner->plan({trace, machine, budgets}, planning::Options(planner->options()), context);
    EXPECT_EQ(done.contains("searching"), searches(*planner)) << planner->name();
  }
}

TEST_F(PlanningCommandTest, WordsBehindReportAreHandedOver) {
  const auto request = std::get<ReportRequest>(
      parse_command_line(std::vector<std::string>{"report", "t.json", "-o", "r.html"}));
  EXPECT_EQ(request.arguments, (std::vector<std::string>{"t.json", "-o", "r.html"}));
}

}  // namespace
}  // namespace spillway::tools
