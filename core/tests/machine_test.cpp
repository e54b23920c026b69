// SPDX-License-Identifier: Apache-2.0
#include "spillway/machine/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "documented_example.hpp"
#include "spillway/base/error.hpp"
#include "spillway/machine/machine_io.hpp"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Machine small_card() {
  Machine machine;
  machine.name = "card";
  machine.device.name = "Card \"One\"";
  machine.device.capacity = {kGiB * 12, "data sheet"};
  machine.device.memory_bytes_per_second = {288e9, "data sheet"};
  machine.device.flop_per_second[static_cast<std::size_t>(Arithmetic::kFloat32)] = {7e12, "paper"};
  machine.device.launch_ns = {5'000, "measured"};
  machine.host_capacity = {kGiB * 64, "paper"};
  machine.page_locked_capacity = {kGiB * 48, "assumed"};
  machine.disk_capacity = {kGiB * 500, "assumed"};
  machine.links = {Link{12e9, 10'000, "measured"}, Link{11.5e9, 10'000, "measured"},
                   Link{1.5e9, 80'000, "data sheet"}, Link{3e9, 80'000, "data sheet"}};
  return machine;
}

std::string problem_after(const std::function<void(Machine&)>& change) {
  Machine machine = small_card();
  change(machine);
  return validate(machine).value_or("valid");
}

TEST(MachineTest, ACopyTakesLatencyAndBytesOverRate) {
  EXPECT_EQ(copy_time(Link{1e9, 10'000, ""}, Bytes{5'000}), 15'000);
  EXPECT_EQ(copy_time(Link{3e9, 0, ""}, Bytes{1}), 0) << "a third of a nanosecond";
  EXPECT_EQ(copy_time(Link{3e9, 0, ""}, Bytes{5}), 2) << "1.67 ns";
}

TEST(MachineTest, ItsCapacitiesAreBudgets) {
  const Budgets budgets = capacities(small_card());
  EXPECT_EQ(budgets[Tier::kDevice], kGiB * 12);
  EXPECT_EQ(budgets[Tier::kHost], kGiB * 48) << "copies need page-locked memory";
  EXPECT_EQ(budgets[Tier::kDisk], kGiB * 500);
}

TEST(MachineValidateTest, NamesWhatIsWrong) {
  EXPECT_EQ(validate(small_card()), std::nullopt);
  EXPECT_THAT(problem_after([](Machine& m) { m.device.capacity.value = {}; }),
              HasSubstr("device: it has no memory"));
  EXPECT_THAT(problem_after([](Machine& m) { m.links[2]->bytes_per_second = -1; }),
              HasSubstr("host-to-disk: its rate is -1"));
  EXPECT_THAT(problem_after([](Machine& m) {
                m.links[0]->bytes_per_second = std::numeric_limits<double>::quiet_NaN();
              }),
              HasSubstr("device-to-host: its rate is nan"));
  EXPECT_THAT(problem_after([](Machine& m) { m.links[1]->latency_ns = -3; }),
              HasSubstr("host-to-device: its latency is -3 ns"));
  EXPECT_THAT(problem_after([](Machine& m) { m.links[1].reset(); }), HasSubstr("one way"));
  EXPECT_THAT(problem_after([](Machine& m) { m.page_locked_capacity.value = kGiB * 65; }),
              HasSubstr("65 GiB are more than the host's 64 GiB"));
  EXPECT_THAT(problem_after([](Machine& m) { m.device.flop_per_second[2].value = 1e30; }),
              HasSubstr("float32 rate"));
  EXPECT_THAT(problem_after([](Machine& m) { m.disk_capacity.value = {~std::uint64_t{0}}; }),
              HasSubstr("a capacity is"));
}

TEST(MachineTextTest, ReadsWhatItWrote) {
  EXPECT_EQ(parse_machine(format_machine(small_card()), "m"), small_card());
  Machine host;
  host.name = "host";
  host.device.capacity = {kGiB * 8, ""};
  host.device.memory_bytes_per_second = {40e9, ""};
  EXPECT_EQ(parse_machine(format_machine(host), "m"), host) << "no tier below, no link";
}

TEST(MachineTextTest, TheDocumentedExampleIsWhatIsWritten) {
  const std::string example = documented_example("## Machine, version 1");
  EXPECT_EQ(format_machine(parse_machine(example, "docs/formats.md")), example);
}

TEST(MachineTextTest, NamesTheMistakeAndItsPlace) {
  const std::string good = format_machine(small_card());
  const auto error = [&](std::string_view from, std::string_view to) -> std::string {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    try {
      (void)parse_machine(text.replace(at, from.size(), to), "m.json");
      return "read";
    } catch (const UserError& mistake) {
      return mistake.what();
    }
  };
  EXPECT_THAT(
      error("\"spillway_machine\": 1", "\"spillway_machine\": 2"),
      HasSubstr("machine m.json: \"spillway_machine\" is 2; this Spillway reads version 1"));
  EXPECT_THAT(error("\"latency_ns\": 10000", "\"latency_ns\": -1"),
              HasSubstr("links.device-to-host: \"latency_ns\" is -1"));
  EXPECT_THAT(error("host-to-device", "device-to-moon"),
              HasSubstr("\"device-to-moon\" is no link"));
  EXPECT_THAT(error("\"float32\"", "\"float31\""), HasSubstr("\"float31\" is no type"));
  EXPECT_THAT(error("\"capacity\"", "\"size\""), HasSubstr("device: \"size\" is not known"));
  EXPECT_THAT(error("\"host\"", "\"disk\""), HasSubstr("\"disk\" stands twice"));
  EXPECT_THAT(error("\"name\": \"card\"", "\"name\": 7"), HasSubstr("\"name\" is 7, not a text"));
  EXPECT_THAT(error("\"device\": {", "\"device\": ["), HasSubstr("the text is not JSON"));
  EXPECT_THAT(error("\"bytes\": 12884901888", "\"bytes\": 0"), HasSubstr("it has no memory"));
}

/// Objects with a number and without a source, by their keys.
void unsourced(const nlohmann::json& value, const std::string& path,
               std::vector<std::string>& found) {
  if (!value.is_object()) return;
  const bool counts = std::ranges::any_of(value, [](const auto& each) { return each.is_number(); });
  const bool is_file = value.contains("spillway_machine");  // the version of the format
  if (counts && !is_file && value.value("source", "").empty()) found.push_back(path);
  for (const auto& [key, inner] : value.items()) {
    std::string below = path;
    below.append("/").append(key);
    unsourced(inner, below, found);
  }
}

TEST(MachineFilesTest, AreValidAndSayWhereEachNumberIsFrom) {
  int machines = 0;
  for (const auto& file : std::filesystem::directory_iterator(SPILLWAY_MACHINES)) {
    if (file.path().extension() != ".json") continue;
    ++machines;
    const Machine machine = read_machine(file.path().string());
    EXPECT_EQ(machine.name, file.path().stem().string());
    std::vector<std::string> found;
    unsourced(nlohmann::json::parse(std::ifstream(file.path())), machine.name, found);
    EXPECT_THAT(found, IsEmpty());
  }
  EXPECT_GE(machines, 10);
}

TEST(MachineFilesTest, WorkspaceIsReadByOpAndSize) {
  Machine machine = small_card();
  machine.workspace = {{{"aten::convolution", Bytes{7}, Bytes{100}},
                        {"aten::convolution", Bytes{1'000}, Bytes{0}},
                        {"aten::relu", Bytes{8}, Bytes{1}}},
                       "measured"};
  const std::string text = format_machine(machine);
  EXPECT_EQ(parse_machine(text, "m.json"), machine);
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    try {
      (void)parse_machine(changed, "m.json");
    } catch (const UserError& thrown) {
      return std::string(thrown.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error("\"1000\"", "\"1e3\""), HasSubstr("\"1e3\" is no number of bytes"));
  EXPECT_THAT(error("\"1000\"", "\"07\""), HasSubstr("\"aten::convolution\" has 7 bytes twice"));
  EXPECT_THAT(error("\"7\": 100", "\"7\": -1"), HasSubstr("\"7\" is -1, not a whole number"));
}

TEST(MachineFilesTest, AMissingOneIsAUserError) {
  EXPECT_THROW((void)read_machine("/no/such/machine.json"), UserError);
}

}  // namespace
}  // namespace spillway
