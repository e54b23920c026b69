// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "spillway/base/error.hpp"

namespace spillway::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using Words = std::vector<std::string>;

template <typename Wanted>
Wanted parse_as(const Words& words) {
  return std::get<Wanted>(parse_command_line(words));
}

std::string error_of(const Words& words) {
  try {
    static_cast<void>(parse_command_line(words));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ReportCommandTest, PassesItsWordsOnAndShowsItsFlags) {
  const Words words{"plan.json", "--trace", "t.json", "-o", "x.html"};
  EXPECT_EQ(parse_as<ReportRequest>({"report", "plan.json", "--trace", "t.json", "-o", "x.html"})
                .arguments,
            words);
  const Words flags_first{"-o", "x.html", "report"};
  EXPECT_EQ(parse_as<ReportRequest>({"report", "-o", "x.html", "report"}).arguments, flags_first);
  EXPECT_THAT(parse_as<PrintRequest>({"report", "--help"}).text, HasSubstr("--perfetto FILE"));
}

TEST(RunLineTest, SplitsFlagsFromTheProgram) {
  const auto run = parse_as<RunRequest>(
      {"run", "--budget", "1GiB", "--status=off", "--", "python", "train.py", "--budget", "3"});
  EXPECT_THAT(run.variables, ElementsAre(Pair("SPILLWAY_BUDGET", "1GiB")));
  EXPECT_THAT(run.command, ElementsAre("python", "train.py", "--budget", "3"));
  EXPECT_EQ(run.status, Show::kOff);
  EXPECT_EQ(run.summary, Show::kAuto);
}

TEST(RunLineTest, WorksWithoutTheMark) {
  const auto run =
      parse_as<RunRequest>({"run", "--budget", "1GiB", "python", "train.py", "--status", "x"});
  EXPECT_THAT(run.command, ElementsAre("python", "train.py", "--status", "x"));
}

// Only the first mark is ours: the program may have one of its own.
TEST(RunLineTest, LeavesLaterMarksToTheProgram) {
  const auto run = parse_as<RunRequest>({"run", "--", "sh", "-c", "x", "--", "run"});
  EXPECT_THAT(run.command, ElementsAre("sh", "-c", "x", "--", "run"));
  EXPECT_THAT(run.variables, IsEmpty());
}

TEST(RunLineTest, AProgramMayBeNamedLikeACommand) {
  EXPECT_THAT(parse_as<RunRequest>({"run", "doctor"}).command, ElementsAre("doctor"));
}

TEST(RunLineTest, EverySettingWithAFlagIsTaken) {
  for (const runtime::SettingDescription& row : runtime::setting_descriptions()) {
    if (row.flag.empty() || row.variable == "SPILLWAY_SUMMARY") continue;
    const std::string flag =
        row.flag.substr(0, 2) == "--" ? std::string(row.flag) : "--" + std::string(row.flag);
    const auto run = parse_as<RunRequest>({"run", flag, "/v", "--", "x"});
    EXPECT_THAT(run.variables, ElementsAre(Pair(row.variable, "/v")));
  }
}

TEST(RunLineTest, HasTheFlagsThatTheDocumentsName) {
  for (const char* flag :
       {"--budget", "--host-budget", "--disk-budget", "--emulate-device", "--mode", "--spool-dir",
        "--min-size", "--start-at", "--over", "--stats"}) {
    EXPECT_EQ(parse_as<RunRequest>({"run", flag, "1", "--", "x"}).variables.size(), 1U) << flag;
  }
}

TEST(RunLineTest, MakesPathsAbsolute) {
  const auto run = parse_as<RunRequest>({"run", "--stats", "s.json", "--", "x"});
  EXPECT_EQ(run.variables.at(0).second, (std::filesystem::current_path() / "s.json").string());
}

TEST(RunLineTest, NeedsAProgram) {
  EXPECT_THAT(error_of({"run"}), HasSubstr("No program to run"));
  EXPECT_THAT(error_of({"run", "--budget", "1GiB", "--"}), HasSubstr("No program to run"));
}

TEST(RecordLineTest, NeedsAnOutput) {
  EXPECT_THAT(error_of({"record", "--", "x"}), HasSubstr("-o FILE"));
  const auto record = parse_as<RunRequest>({"record", "-o", "/t.json", "--", "x"});
  EXPECT_EQ(record.trace_path, "/t.json");
}

TEST(MistakesTest, NameTheNearestWord) {
  EXPECT_THAT(error_of({"rum", "--", "x"}), HasSubstr("Did you mean \"run\"?"));
  EXPECT_THAT(error_of({"docter"}), HasSubstr("Did you mean \"doctor\"?"));
  EXPECT_THAT(error_of({"run", "--buget", "1GiB", "--", "x"}),
              HasSubstr("Did you mean \"--budget\"?"));
  EXPECT_THAT(error_of({"run", "--buget=1GiB", "x"}), HasSubstr("\"--buget\" of spillway run"));
  EXPECT_THAT(error_of({"--verison"}), HasSubstr("Did you mean \"--version\"?"));
  EXPECT_THAT(error_of({"doctor", "--jsn"}), HasSubstr("Did you mean \"--json\"?"));
  EXPECT_THAT(error_of({"trace", "stat", "f"}), HasSubstr("Did you mean \"stats\"?"));
  EXPECT_THAT(error_of({"run", "--status", "atuo", "--", "x"}),
              HasSubstr("Did you mean \"auto\"?"));
}

TEST(MistakesTest, AreNamedWhereNothingIsNear) {
  EXPECT_THAT(error_of({"zzzzzz"}), HasSubstr("Commands: run"));
  EXPECT_THAT(error_of({"doctor", "everything"}), HasSubstr("does not take \"everything\""));
  EXPECT_THAT(error_of({"run", "--budget"}), HasSubstr("--budget"));
  EXPECT_THAT(error_of({"trace"}), HasSubstr("show, stats, diff, workspace or reorder"));
  EXPECT_THAT(error_of({"trace", "show"}), HasSubstr("No trace file"));
}

TEST(TraceLineTest, NamesAViewAndAFile) {
  const auto trace = parse_as<TraceRequest>({"trace", "stats", "t.json"});
  EXPECT_EQ(trace.view, TraceRequest::View::kStats);
  EXPECT_EQ(trace.path, "t.json");
}

TEST(TraceLineTest, ReorderNeedsAnOrderAndAnOutput) {
  const auto trace = parse_as<TraceRequest>(
      {"trace", "reorder", "t.json", "--depth-first", "-o", "other.json", "--json"});
  EXPECT_EQ(trace.view, TraceRequest::View::kReorder);
  EXPECT_EQ(trace.path, "t.json");
  EXPECT_EQ(trace.output_path, "other.json");
  EXPECT_TRUE(trace.json);
  EXPECT_THAT(error_of({"trace", "reorder", "t.json", "-o", "o.json"}),
              HasSubstr("give --depth-first"));
  EXPECT_THAT(error_of({"trace", "reorder", "t.json", "--depth-first"}), HasSubstr("-o FILE"));
  EXPECT_THAT(error_of({"trace", "reorder", "--depth-first", "-o", "o.json"}),
              HasSubstr("No trace file"));
  EXPECT_THAT(error_of({"trace", "reorder", "t.json", "--depth-fist"}), HasSubstr("--depth-first"));
}

TEST(HelpTest, FitsEightyColumnsAndNamesEveryFlag) {
  for (const Words& words :
       {Words{}, Words{"--help"}, Words{"run", "--help"}, Words{"record", "-h"},
        Words{"doctor", "--help"}, Words{"trace", "--help"}, Words{"trace", "show", "--help"},
        Words{"trace", "reorder", "--help"}}) {
    const std::string text = parse_as<PrintRequest>(words).text;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
    EXPECT_THAT(text, HasSubstr("Usage: spillway"));
  }
  const std::string run = parse_as<PrintRequest>({"run", "--help"}).text;
  for (const runtime::SettingDescription& row : runtime::setting_descriptions()) {
    EXPECT_THAT(run, HasSubstr(std::string(row.flag)));
  }
}

TEST(VersionTest, IsPrinted) {
  EXPECT_EQ(parse_as<PrintRequest>({"--version"}).text, "spillway " SPILLWAY_VERSION "\n");
}

}  // namespace
}  // namespace spillway::tools
