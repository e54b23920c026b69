// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "doctor/doctor_checks.hpp"
#include "machine/disk_speed.hpp"
#include "process/python_probe.hpp"

namespace spillway::tools {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;

auto finding_of(const std::string& topic, Verdict verdict) {
  return Contains(AllOf(Field(&Finding::topic, topic), Field(&Finding::verdict, verdict)));
}

PythonFacts healthy_python() {
  PythonFacts python;
  python.found = true;
  python.executable = "/usr/bin/python3";
  python.version = "3.12.1";
  python.torch = "2.15.0+cpu";
  python.spillway = "0.1.0";
  python.has_adapter = true;
  return python;
}

TEST(PythonFactsTest, ReadsTheProbe) {
  const PythonFacts facts = parse_python_facts(
      R"({"executable": "/p", "version": "3.12.1", "torch": "2.15.0", "spillway": "0.1.0",
          "has_adapter": true})");
  EXPECT_EQ(facts.torch, "2.15.0");
  EXPECT_EQ(facts.problem, "");
  EXPECT_TRUE(facts.has_adapter);
}

TEST(PythonFactsTest, SurvivesAnyAnswer) {
  EXPECT_NE(parse_python_facts("").problem, "");
  EXPECT_NE(parse_python_facts("[1]").problem, "");
  EXPECT_EQ(parse_python_facts(R"({"torch": null, "has_adapter": 3})").torch, "");
}

TEST(CheckCardTest, SaysThatThereIsNoDriver) {
  const Finding none = check_card("libcuda-that-is-not-there.so");
  EXPECT_EQ(none.topic, "card");
  EXPECT_EQ(none.verdict, Verdict::kOk);
  EXPECT_EQ(none.what, "none: libcuda-that-is-not-there.so is not installed");
}

TEST(CheckCardTest, SaysHowToKeepABudgetOfTheCard) {
  const Finding card = check_card(SPILLWAY_STAND_IN_CUDA);
  EXPECT_EQ(card.verdict, Verdict::kOk);
  EXPECT_THAT(card.what, AllOf(HasSubstr("stand-in card"), HasSubstr("keeps a budget of it"),
                               HasSubstr("SPILLWAY_BUDGET=cpu:8GiB")));
}

TEST(CheckCardTest, WarnsWhereNoBudgetOfTheCardCanBeKept) {
  setenv("STAND_IN_CUDA", "no-mapping", 1);
  const Finding card = check_card(SPILLWAY_STAND_IN_CUDA);
  unsetenv("STAND_IN_CUDA");
  EXPECT_EQ(card.verdict, Verdict::kWarning);
  EXPECT_THAT(card.what, AllOf(HasSubstr("stand-in card"), HasSubstr("no budget of it")));
  EXPECT_THAT(card.remedy, HasSubstr("SPILLWAY_BUDGET=cpu:8GiB"));
}

TEST(CheckCardTest, WarnsOfALibraryThatIsNoDriver) {
  const Finding strange = check_card("libm.so.6");
  EXPECT_EQ(strange.verdict, Verdict::kWarning);
  EXPECT_THAT(strange.what, HasSubstr("Update NVIDIA's driver"));
}

TEST(SupportedTorchTest, IsARangeOfMinors) {
  for (const char* good : {"2.11.0", "2.15.0", "2.13.1+cpu", "2.12"}) {
    EXPECT_TRUE(is_supported_torch(good)) << good;
  }
  for (const char* bad : {"", "2", "2.", "2.10.0", "2.16.0", "1.12.0", "3.12.0", "2.1.5", "x"}) {
    EXPECT_FALSE(is_supported_torch(bad)) << bad;
  }
}

TEST(SupportedTensorflowTest, IsARangeOfMinors) {
  for (const char* good : {"2.19.0", "2.20.1", "2.21.0"}) {
    EXPECT_TRUE(is_supported_tensorflow(good)) << good;
  }
  for (const char* bad : {"", "2.18.1", "2.22.0", "1.15.5"}) {
    EXPECT_FALSE(is_supported_tensorflow(bad)) << bad;
  }
}

TEST(CheckPythonTest, IsContentWithAHealthyOne) {
  for (const Finding& finding : check_python(healthy_python())) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.topic;
  }
}

TEST(CheckPythonTest, FailsWithoutWhatTrainingNeeds) {
  EXPECT_THAT(check_python({}), finding_of("python", Verdict::kFailed));
  PythonFacts python = healthy_python();
  python.torch = "2.10.0";
  EXPECT_THAT(check_python(python), finding_of("torch", Verdict::kFailed));
  python = healthy_python();
  python.has_adapter = false;
  EXPECT_THAT(check_python(python), finding_of("package", Verdict::kFailed));
  python.spillway.clear();
  EXPECT_THAT(check_python(python), finding_of("package", Verdict::kFailed));
}

TEST(CheckPythonTest, OneFrameworkIsEnough) {
  PythonFacts python = healthy_python();
  python.torch.clear();
  python.has_adapter = false;
  EXPECT_THAT(check_python(python), finding_of("framework", Verdict::kFailed));
  python.tensorflow = "2.21.0";
  EXPECT_THAT(check_python(python), finding_of("package", Verdict::kFailed));
  python.has_plugin = true;
  for (const Finding& finding : check_python(python)) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.topic;
  }
  python.torch = "2.15.0";
  EXPECT_THAT(check_python(python), finding_of("package", Verdict::kWarning));
  python.tensorflow = "2.18.0";
  EXPECT_THAT(check_python(python), finding_of("tensorflow", Verdict::kFailed));
  python.has_adapter = true;
  EXPECT_THAT(check_python(python), finding_of("tensorflow", Verdict::kWarning));
}

TEST(CheckSpoolTest, AMissingDirectoryFails) {
  EXPECT_THAT(check_spool("/no/such/directory").findings, finding_of("spool", Verdict::kFailed));
}

TEST(DiskSpeedTest, MeasuresAndLeavesNothing) {
  const DiskSpeed speed = measure_disk_speed(testing::TempDir(), kMiB * 16);
  EXPECT_EQ(speed.problem, "");
  EXPECT_GT(speed.write_rate, 0);
  EXPECT_GT(speed.read_rate, 0);
  EXPECT_LE(speed.written, kMiB * 16);
}

TEST(DiskSpeedTest, SaysWhyItCannot) {
  EXPECT_NE(measure_disk_speed("/no/such/directory", kMiB * 16).problem, "");
}

TEST(FindingsTest, FitEightyColumnsAndSayHowToMend) {
  const std::string text = format_findings(
      {{"disk write", Verdict::kWarning, std::string(50, 'a') + " and then some more",
        "Name a faster one with --spool-dir, or raise the budget, or wait."}});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(text, HasSubstr("warning"));
  EXPECT_THAT(text, HasSubstr("--spool-dir"));
  EXPECT_THAT(text, HasSubstr("see the warning."));
}

TEST(FindingsTest, AreJsonToo) {
  const auto document = nlohmann::json::parse(
      findings_as_json({{"spool", Verdict::kFailed, "no such \"directory\" \xff", "make it"}}));
  EXPECT_EQ(document.at("works"), false);
  EXPECT_EQ(document.at("findings").at(0).at("verdict"), "failed");
}

}  // namespace
}  // namespace spillway::tools
