// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "spillway/base/error.hpp"

namespace spillway::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Kind = BudgetSpec::Kind;

Settings settings_of(std::vector<NameValue> environment) {
  return settings_from_environment(environment);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
    return "accepted";
  } catch (const UserError& error) {
    return error.what();
  }
}

std::string error_of(const std::string& variable, const std::string& value) {
  return error_of([&] { (void)settings_of({{variable, value}}); });
}

TEST(ParseModeTest, KnowsItsWords) {
  for (const Mode mode : {Mode::kOff, Mode::kRecord, Mode::kEnforce, Mode::kFuzz, Mode::kVerify}) {
    EXPECT_EQ(parse_mode(to_string(mode), "m"), mode);
  }
  EXPECT_EQ(to_string(Mode::kEnforce), "enforce");
  EXPECT_THAT(error_of([] { (void)parse_mode("enfroce", "m"); }),
              AllOf(HasSubstr("m: \"enfroce\""), HasSubstr("mean \"enforce\"?")));
  EXPECT_THAT(error_of([] { (void)parse_mode("", "m"); }), HasSubstr("off, record, enforce"));
}

TEST(ParseBudgetTest, TakesBytesSharesAndAuto) {
  EXPECT_EQ(parse_budget("12GiB", "x"), (BudgetSpec{Kind::kBytes, kGiB * 12, 0}));
  EXPECT_EQ(parse_budget(".5GiB", "x"), (BudgetSpec{Kind::kBytes, kMiB * 512, 0}));
  EXPECT_EQ(parse_budget("80%", "x"), (BudgetSpec{Kind::kPercent, {}, 80}));
  EXPECT_EQ(parse_budget(" 12.5 % ", "x"), (BudgetSpec{Kind::kPercent, {}, 12.5}));
  EXPECT_EQ(parse_budget("100%", "x"), (BudgetSpec{Kind::kPercent, {}, 100}));
  EXPECT_EQ(parse_budget("auto", "x"), (BudgetSpec{Kind::kAuto, {}, 0}));
}

TEST(ParseBudgetTest, RefusesTheRestByName) {
  for (const char* text :
       {"",     " ",    "0", "0GiB", "0.0",        "-1GiB", "-5%", "0%",   "100.1%", "101%",
        "nan%", "inf%", "%", "1e1%", "80 percent", "Auto1", "nan", "12Gi", "all",    "1/2"}) {
    EXPECT_THAT(error_of([text] { (void)parse_budget(text, "SPILLWAY_BUDGET"); }),
                AllOf(HasSubstr("SPILLWAY_BUDGET"), HasSubstr(std::string("\"") + text)))
        << text;
  }
}

TEST(BudgetTextTest, IsWhatWasMeant) {
  EXPECT_EQ(to_string(parse_budget("12GiB", "x")), "12 GiB");
  EXPECT_EQ(to_string(parse_budget("12.5%", "x")), "12.5%");
  EXPECT_EQ(to_string(parse_budget("auto", "x")), "auto");
}

Bytes resolved(std::string_view text, const MachineMemory& memory) {
  return resolve_budget(parse_budget(text, "budget"), memory, "budget");
}

TEST(ResolveBudgetTest, SharesAreDividedByTheProcesses) {
  const MachineMemory alone{
      .total = kGiB * 64, .available = kGiB * 62, .ours = {}, .local_processes = 1};
  const MachineMemory four{
      .total = kGiB * 64, .available = kGiB * 62, .ours = {}, .local_processes = 4};
  EXPECT_EQ(resolved("50%", alone), kGiB * 32);
  EXPECT_EQ(resolved("50%", four), kGiB * 8);
  EXPECT_EQ(resolved("100%", alone), kGiB * 64);
  EXPECT_EQ(resolved("12GiB", four), kGiB * 12) << "bytes are for each process";
}

TEST(ResolveBudgetTest, AutoLeavesWhatIsNotOursAndAReserve) {
  // 5 % of 64 GiB is 3.2 GiB.
  const std::uint64_t reserve = (kGiB * 64).count / 20;
  const Bytes rest{(kGiB * 62).count - reserve};
  EXPECT_EQ(
      resolved("auto",
               {.total = kGiB * 64, .available = kGiB * 62, .ours = {}, .local_processes = 1}),
      rest);
  EXPECT_EQ(
      resolved("auto",
               {.total = kGiB * 64, .available = kGiB * 62, .ours = {}, .local_processes = 3}),
      Bytes{rest.count / 3});
  // 5 % of 4 GiB is less than 512 MiB.
  EXPECT_EQ(
      resolved("auto",
               {.total = kGiB * 4, .available = kMiB * 3584, .ours = {}, .local_processes = 1}),
      kGiB * 3);
  EXPECT_EQ(resolved("auto",
                     {.total = kGiB * 4, .available = kGiB * 4, .ours = {}, .local_processes = 0}),
            kMiB * 3584)
      << "no process counts as one";
  // Our own part stays ours; the others have their parts of what is left.
  EXPECT_EQ(resolved("auto",
                     {.total = kGiB * 64, .available = {}, .ours = kGiB * 5, .local_processes = 4}),
            kGiB * 5);
}

TEST(ResolveBudgetTest, SaysWhatIsShort) {
  const MachineMemory memory{
      .total = kGiB * 16, .available = kGiB * 15, .ours = {}, .local_processes = 2};
  EXPECT_EQ(resolved("16GiB", memory), kGiB * 16);
  EXPECT_THAT(
      error_of([&] { (void)resolved("64GiB", memory); }),
      AllOf(HasSubstr("budget: need 64 GiB, have 16 GiB, short 48 GiB"), HasSubstr("auto")));
  const MachineMemory full{
      .total = kGiB, .available = kMiB * 124, .ours = {}, .local_processes = 1};
  EXPECT_THAT(error_of([&] { (void)resolved("auto", full); }),
              HasSubstr("need 1 MiB, have 0 B, short 1 MiB"));
  EXPECT_THAT(error_of([&] { (void)resolved("1023KiB", memory); }), HasSubstr("short 1 KiB"));
  EXPECT_EQ(resolved("1MiB", memory), kMiB);
}

TEST(SettingsTest, ReadEveryVariable) {
  const Settings settings = settings_of({{"SPILLWAY_BUDGET", "12GiB"},
                                         {"SPILLWAY_HOST_BUDGET", "80%"},
                                         {"SPILLWAY_DISK_BUDGET", "auto"},
                                         {"SPILLWAY_EMULATE_DEVICE", "2GiB"},
                                         {"SPILLWAY_MODE", "record"},
                                         {"SPILLWAY_SPOOL_DIR", "/fast disk"},
                                         {"SPILLWAY_IO", "threads"},
                                         {"SPILLWAY_MIN_SIZE", "0"},
                                         {"SPILLWAY_START_AT", "0.9"},
                                         {"SPILLWAY_OVER", "allow"},
                                         {"SPILLWAY_TF_ASYNC", "off"},
                                         {"SPILLWAY_STRICT", "0"},
                                         {"SPILLWAY_SUMMARY", "1"},
                                         {"SPILLWAY_STATS", "s.json"},
                                         {"SPILLWAY_TRACE", "t.json"},
                                         {"SPILLWAY_STATUS_PAGE", "/proc/7/fd/3"},
                                         {"SPILLWAY_PLANNER", "lms:ahead=2"},
                                         {"SPILLWAY_PLAN_CACHE", "/plans"},
                                         {"SPILLWAY_KEEP_OPS", "aten::mm,aten::add"},
                                         {"SPILLWAY_FAULTS", "spool.open=EIO@1"}});
  EXPECT_EQ(settings.budget, parse_budget("12GiB", ""));
  EXPECT_EQ(settings.host_budget, parse_budget("80%", ""));
  EXPECT_EQ(settings.disk_budget, parse_budget("auto", ""));
  EXPECT_EQ(settings.emulate_device, kGiB * 2);
  EXPECT_EQ(settings.mode, Mode::kRecord);
  EXPECT_EQ(settings.spool_dir, "/fast disk");
  EXPECT_EQ(settings.io, IoMethod::kThreads);
  EXPECT_EQ(settings.min_size, Bytes{0});
  EXPECT_EQ(settings.least_size, Bytes{0}) << "what is set holds always";
  EXPECT_EQ(settings.start_at, 0.9);
  EXPECT_FALSE(settings.tf_async);
  EXPECT_TRUE(settings.overbook);
  EXPECT_FALSE(settings.strict);
  EXPECT_TRUE(settings.summary);
  EXPECT_EQ(settings.stats_path, "s.json");
  EXPECT_EQ(settings.trace_path, "t.json");
  EXPECT_EQ(settings.status_path, "/proc/7/fd/3");
  EXPECT_EQ(settings.planner, "lms:ahead=2");
  EXPECT_EQ(settings.plan_cache, "/plans");
  EXPECT_EQ(settings.keep_ops, "aten::mm,aten::add");
  EXPECT_EQ(settings.faults, "spool.open=EIO@1");
}

TEST(SettingsTest, IgnoreWhatIsNotTheirs) {
  const Settings settings =
      settings_of({{"PATH", "/bin"}, {"XSPILLWAY_BUDGET", "?"}, {"SPILLWAY", "?"}, {"", ""}});
  EXPECT_EQ(settings.effective_mode(), Mode::kOff);
}

TEST(SettingsTest, EnforceWhereALimitIsStated) {
  EXPECT_EQ(settings_of({}).effective_mode(), Mode::kOff);
  EXPECT_EQ(settings_of({{"SPILLWAY_DISK_BUDGET", "1GiB"}}).effective_mode(), Mode::kOff);
  EXPECT_EQ(settings_of({{"SPILLWAY_BUDGET", "1GiB"}}).effective_mode(), Mode::kEnforce);
  EXPECT_EQ(settings_of({{"SPILLWAY_EMULATE_DEVICE", "1GiB"}}).effective_mode(), Mode::kEnforce);
  EXPECT_EQ(settings_of({{"SPILLWAY_BUDGET", "1GiB"}, {"SPILLWAY_MODE", "off"}}).effective_mode(),
            Mode::kOff);
  EXPECT_EQ(settings_of({{"SPILLWAY_MODE", "record"}}).effective_mode(), Mode::kRecord);
}

TEST(SettingsTest, RefuseATraceThatNoModeWrites) {
  const auto error = [](std::vector<NameValue> others) {
    others.emplace_back("SPILLWAY_TRACE", "t.json");
    return error_of([&] { (void)settings_of(others); });
  };
  const std::string expected =
      "SPILLWAY_TRACE: \"t.json\" is written by SPILLWAY_MODE=record alone. "
      "Else unset SPILLWAY_TRACE.";
  EXPECT_EQ(error({}), expected);
  EXPECT_EQ(error({{"SPILLWAY_BUDGET", "1GiB"}}), expected);
  EXPECT_EQ(error({{"SPILLWAY_MODE", "verify"}}), expected);
  EXPECT_EQ(error({{"SPILLWAY_MODE", "record"}}), "accepted");
  EXPECT_EQ(error({{"SPILLWAY_MODE", "off"}}), "accepted");
}

TEST(SettingsTest, NameTheNearestVariable) {
  EXPECT_THAT(error_of("SPILLWAY_BUGDET", "1GiB"), HasSubstr("Did you mean \"SPILLWAY_BUDGET\"?"));
  EXPECT_THAT(error_of("SPILLWAY_SPOOLDIR", "/"),
              HasSubstr("Did you mean \"SPILLWAY_SPOOL_DIR\"?"));
  EXPECT_THAT(error_of("SPILLWAY_ZZZ", "1"),
              AllOf(HasSubstr("SPILLWAY_ZZZ is not a setting"), HasSubstr("SPILLWAY_MIN_SIZE"),
                    Not(HasSubstr("Did you mean"))));
  EXPECT_THAT(error_of("SPILLWAY_", "1"), HasSubstr("is not a setting"));
  EXPECT_THAT(error_of("SPILLWAY_budget", "1GiB"), HasSubstr("is not a setting"));
}

TEST(SettingsTest, LeaveTheVariablesOfThePlanningCommandsAlone) {
  EXPECT_EQ(settings_of({{"SPILLWAY_MACHINES", "/m"}, {"SPILLWAY_COMMAND", "/c"}}).effective_mode(),
            Mode::kOff);
}

TEST(SettingsTest, NameTheVariableWhoseValueIsWrong) {
  EXPECT_THAT(error_of("SPILLWAY_BUDGET", ""), HasSubstr("SPILLWAY_BUDGET"));
  EXPECT_THAT(error_of("SPILLWAY_HOST_BUDGET", "much"), HasSubstr("SPILLWAY_HOST_BUDGET"));
  EXPECT_THAT(error_of("SPILLWAY_MODE", "verfy"), HasSubstr("mean \"verify\"?"));
  EXPECT_THAT(error_of("SPILLWAY_IO", "urng"),
              AllOf(HasSubstr("SPILLWAY_IO"), HasSubstr("mean \"uring\"?")));
  EXPECT_THAT(error_of("SPILLWAY_IO", ""), HasSubstr("auto, uring, threads"));
  EXPECT_THAT(error_of("SPILLWAY_EMULATE_DEVICE", "0"), HasSubstr("SPILLWAY_EMULATE_DEVICE"));
  EXPECT_THAT(error_of("SPILLWAY_MIN_SIZE", "-1"), HasSubstr("SPILLWAY_MIN_SIZE"));
  for (const char* text : {"1.01", "-0.1", "nan", "inf", "", "90%", "0.9x"}) {
    EXPECT_THAT(error_of("SPILLWAY_START_AT", text), HasSubstr("SPILLWAY_START_AT")) << text;
  }
  EXPECT_THAT(error_of("SPILLWAY_OVER", "alow"), HasSubstr("mean \"allow\"?"));
  EXPECT_THAT(error_of("SPILLWAY_STRICT", "maybe"), HasSubstr("SPILLWAY_STRICT"));
}

TEST(SettingsTest, TakeSwitchesInAnyWording) {
  for (const char* on : {"1", "on", "true", "True", "YES", " 1 "}) {
    EXPECT_TRUE(settings_of({{"SPILLWAY_SUMMARY", on}}).summary) << on;
  }
  for (const char* off : {"0", "off", "false", "False", "no"}) {
    EXPECT_FALSE(settings_of({{"SPILLWAY_STRICT", off}}).strict) << off;
  }
  EXPECT_FALSE(settings_of({{"SPILLWAY_OVER", "refuse"}}).overbook);
}

TEST(SettingsTest, RecomputingIsAskedForOrLeftToTheDevice) {
  EXPECT_EQ(settings_of({}).recompute, Recompute::kAuto);
  EXPECT_EQ(settings_of({{"SPILLWAY_RECOMPUTE", "on"}}).recompute, Recompute::kOn);
  EXPECT_EQ(settings_of({{"SPILLWAY_RECOMPUTE", "off"}}).recompute, Recompute::kOff);
  EXPECT_THROW(settings_of({{"SPILLWAY_RECOMPUTE", "maybe"}}), UserError);
}

TEST(DeviceBudgetsTest, AreTakenForTheCpu) {
  EXPECT_EQ(settings_of({{"SPILLWAY_BUDGET", "cpu:8GiB"}}).budget, parse_budget("8GiB", ""));
  EXPECT_EQ(settings_of({{"SPILLWAY_BUDGET", " cpu : 80% "}}).budget, parse_budget("80%", ""));
}

TEST(DeviceBudgetsTest, AreTakenForAGraphicsCard) {
  const Settings settings = settings_of({{"SPILLWAY_BUDGET", "cuda:12GiB"}});
  EXPECT_EQ(settings.budget, parse_budget("12GiB", ""));
  EXPECT_EQ(settings.budget_of, BudgetDevice::kCuda);
  EXPECT_EQ(settings_of({{"SPILLWAY_BUDGET", "cpu:8GiB"}}).budget_of, BudgetDevice::kCpu);
}

TEST(DeviceBudgetsTest, LeaveTheDeviceToTheFrameworkWhereTheyNameNone) {
  const Settings open = settings_of({{"SPILLWAY_BUDGET", "12GiB"}});
  EXPECT_EQ(open.budget_of, std::nullopt);
  EXPECT_TRUE(open.leaves_device_open());
  EXPECT_TRUE(
      settings_of({{"SPILLWAY_BUDGET", "1GiB"}, {"SPILLWAY_MODE", "off"}}).names_no_device());
  EXPECT_FALSE(settings_of({{"SPILLWAY_BUDGET", "cpu:12GiB"}}).leaves_device_open());
  EXPECT_FALSE(settings_of({{"SPILLWAY_MODE", "record"}}).leaves_device_open());
  EXPECT_FALSE(
      settings_of({{"SPILLWAY_BUDGET", "1GiB"}, {"SPILLWAY_MODE", "off"}}).leaves_device_open());
  for (const char* other : {"SPILLWAY_EMULATE_DEVICE", "SPILLWAY_BUDGET_PAGE"}) {
    EXPECT_FALSE(settings_of({{"SPILLWAY_BUDGET", "1GiB"}, {other, "1GiB"}}).leaves_device_open());
  }
}

TEST(DeviceBudgetsTest, AreRefusedForSeveralCards) {
  for (const char* text : {"cuda:0=10GiB,cuda:1=22GiB", "cuda:1=22GiB"}) {
    EXPECT_THAT(error_of("SPILLWAY_BUDGET", text),
                AllOf(HasSubstr("one card of several"), HasSubstr("CUDA_VISIBLE_DEVICES")))
        << text;
  }
}

TEST(DeviceBudgetsTest, AreRefusedForTwoDevices) {
  for (const char* text : {"cuda:12GiB,cpu:8GiB", "cpu:8GiB,cuda:12GiB"}) {
    EXPECT_THAT(error_of("SPILLWAY_BUDGET", text), HasSubstr("not supported yet")) << text;
  }
  EXPECT_THROW(settings_of({{"SPILLWAY_BUDGET", "cuda:1GiB"}, {"SPILLWAY_EMULATE_DEVICE", "1GiB"}}),
               UserError);
  for (const char* text :
       {"gpu:1GiB", "cpu:1GiB,", "cpu:1GiB,cpu:2GiB", ",", ":", "cpu:", "cpu:x",
        "cuda:1GiB,cuda:2GiB", "8GiB,cpu:8GiB", "cpu:cpu:1GiB", "cuda:0,cpu:1GiB", ",cpu:1GiB"}) {
    EXPECT_THAT(error_of("SPILLWAY_BUDGET", text),
                AllOf(HasSubstr("SPILLWAY_BUDGET"), Not(HasSubstr("supported"))))
        << text;
  }
  EXPECT_THAT(error_of("SPILLWAY_DISK_BUDGET", "cpu:8GiB"), HasSubstr("SPILLWAY_DISK_BUDGET"));
}

TEST(CurrentEnvironmentTest, IsOurs) {
  ASSERT_EQ(::setenv("SPILLWAY_TEST_VALUE", "a=b", 1), 0);
  EXPECT_THAT(current_environment(), testing::Contains(NameValue{"SPILLWAY_TEST_VALUE", "a=b"}));
  ASSERT_EQ(::unsetenv("SPILLWAY_TEST_VALUE"), 0);
}

// Runs in every import of the framework, with whatever environment there is.
TEST(SettingsTest, AreReadInWellUnderAMillisecond) {
  std::vector<NameValue> environment(200, {"SOME_OTHER_VARIABLE", std::string(100, 'x')});
  environment.emplace_back("SPILLWAY_BUDGET", "12GiB");
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) (void)settings_from_environment(environment);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(100));
}

TEST(SettingDescriptionsTest, AreTheVariablesThatAreRead) {
  for (const SettingDescription& row : setting_descriptions()) {
    EXPECT_THAT(error_of(std::string(row.variable), "\x01"), Not(HasSubstr("is not a setting")));
    EXPECT_EQ(row.meaning.back(), '.') << row.variable;
    EXPECT_FALSE(row.value.empty()) << row.variable;
    EXPECT_TRUE(row.flag.empty() || row.flag.substr(0, 2) == "--") << row.variable;
  }
  EXPECT_EQ(setting_descriptions().size(), 22U) << "docs/settings.md and the tests follow";
}

TEST(SettingDescriptionsTest, StandInTheDocumentation) {
  std::ifstream file(SPILLWAY_SETTINGS_PAGE);
  ASSERT_TRUE(file) << SPILLWAY_SETTINGS_PAGE;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  for (const SettingDescription& row : setting_descriptions()) {
    // In a table, a bar within a cell is written \|.
    std::string value(row.value);
    for (std::size_t at = 0; (at = value.find('|', at)) != std::string::npos; at += 2) {
      value.insert(at, 1, '\\');
    }
    const std::string flag = row.flag.empty() ? "" : std::string("`").append(row.flag) + "`";
    std::string start = "| `";
    start.append(row.variable).append("` | ").append(flag).append(flag.empty() ? "" : " ");
    start.append("| `").append(value).append("` |");
    EXPECT_THAT(lines, testing::Contains(
                           AllOf(testing::StartsWith(start), HasSubstr(std::string(row.meaning)))))
        << "docs/settings.md lacks this row";
  }
  const auto rows = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.compare(0, 12, "| `SPILLWAY_") == 0;
  });
  EXPECT_EQ(static_cast<std::size_t>(rows), setting_descriptions().size())
      << "docs/settings.md names a setting that there is not";
}

}  // namespace
}  // namespace spillway::runtime
