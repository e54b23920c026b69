// SPDX-License-Identifier: Apache-2.0
#include "machine/machine_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "spillway/base/error.hpp"
#include "spillway/machine/machine_io.hpp"
#include "spillway/machine/this_processor.hpp"

namespace spillway::tools {
namespace {

using testing::HasSubstr;

MeasuredMachine measured_machine() {
  MeasuredMachine measured;
  measured.name = "here";
  measured.processor = "A processor";
  measured.memory = kGiB * 24;
  measured.speed = {2, "AVX2", 123'456'789'012.0, 61'700'000'000.0, 21'234'567'890.0, kMiB * 512};
  measured.disk = DiskSpeed{"", true, 1'512'345'678.0, 2'000'000'000.0, kMiB * 256};
  measured.disk_free = kGiB * 37;
  return measured;
}

TEST(MachineFileTest, SaysWhatWasMeasuredAndWhatAssumed) {
  const Machine machine = machine_of(measured_machine());
  ASSERT_EQ(validate(machine), std::nullopt);
  EXPECT_EQ(machine.device.capacity.value, kGiB * 24);
  const auto& rates = machine.device.flop_per_second;
  const auto& single = rates[static_cast<std::size_t>(Arithmetic::kFloat32)];
  EXPECT_EQ(single.value, 123e9);
  EXPECT_THAT(single.source, HasSubstr("measured"));
  EXPECT_THAT(rates[static_cast<std::size_t>(Arithmetic::kBfloat16)].source, HasSubstr("assumed"));
  EXPECT_EQ(machine.device.memory_bytes_per_second.value, 21'235e6);
  const auto& out = machine.link(LinkKind::kHostToDisk);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->bytes_per_second, 1'512e6);
  EXPECT_THAT(out->source, HasSubstr("direct"));
  // It trains on its processor: nothing lies between device and host.
  EXPECT_FALSE(machine.link(LinkKind::kDeviceToHost));
  EXPECT_EQ(capacities(machine)[Tier::kDisk], kGiB * 37);
}

TEST(MachineFileTest, ReadsBackAsItWas) {
  const Machine machine = machine_of(measured_machine());
  EXPECT_EQ(parse_machine(format_machine(machine), "here"), machine);
}

TEST(MachineFileTest, WithoutADiskThereIsNoDiskTier) {
  MeasuredMachine measured = measured_machine();
  measured.disk.reset();
  const Machine machine = machine_of(measured);
  EXPECT_EQ(validate(machine), std::nullopt);
  EXPECT_EQ(capacities(machine)[Tier::kDisk], Bytes{0});
}

TEST(MachineFileTest, IsMeasuredHere) {
  const std::string path = testing::TempDir() + "/measured-here.json";
  const Machine written = save_machine(path, std::nullopt, {});
  const Machine machine = read_machine(path);
  EXPECT_EQ(machine, written);
  EXPECT_EQ(machine.name, "measured-here");
  EXPECT_EQ(machine.device.name, this_processor()) << "what a recorded step says of where it ran";
  const auto rate = [&](Arithmetic type) {
    return machine.device.flop_per_second[static_cast<std::size_t>(type)].value;
  };
  // No x86-64 processor of this century is slower, and none has a thousand times as much.
  EXPECT_GT(rate(Arithmetic::kFloat32), 1e9);
  EXPECT_LT(rate(Arithmetic::kFloat32), 1e15);
  EXPECT_GT(rate(Arithmetic::kFloat64), 1e9);
  EXPECT_GT(machine.device.memory_bytes_per_second.value, 1e8);
  std::filesystem::remove(path);
}

TEST(MachineFileTest, AFolderThatIsNotThereIsAMistake) {
  EXPECT_THROW(save_machine("/no/such/folder/here.json", std::nullopt, {}), UserError);
}

}  // namespace
}  // namespace spillway::tools
