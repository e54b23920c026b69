// SPDX-License-Identifier: Apache-2.0
// What the driver counts for this process, from a management library of ours, whose path
// SPILLWAY_STAND_IN_NVML is.
#include "spillway/runtime/device/process_memory.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace spillway::runtime {
namespace {

constexpr const char* kBus = "0000:00:00.0";

std::optional<Bytes> told(const std::string& processes) {
  setenv("STAND_IN_NVML", processes.c_str(), 1);
  const auto result = ProcessMemory(kBus, SPILLWAY_STAND_IN_NVML).read();
  unsetenv("STAND_IN_NVML");
  return result;
}

TEST(ProcessMemoryTest, IsThisProcesssAmongOthers) {
  EXPECT_EQ(told("1 1000 0 5000 2 3000"), Bytes{5000});
}

TEST(ProcessMemoryTest, InAContainerTheOnlyProcessIsThisOne) {
  EXPECT_EQ(told("4000000000 5000"), Bytes{5000});
}

TEST(ProcessMemoryTest, InAContainerNobodyKnowsWhichOfSeveralIsThisOne) {
  EXPECT_EQ(told("4000000000 5000 4000000001 6000"), std::nullopt);
}

TEST(ProcessMemoryTest, IsNotToldWhereTheDriverDoesNotTell) {
  EXPECT_EQ(told(""), std::nullopt);
  EXPECT_EQ(told("fails"), std::nullopt);
  EXPECT_EQ(told("0 18446744073709551615"), std::nullopt);
  EXPECT_EQ(ProcessMemory("0000:99:00.0", SPILLWAY_STAND_IN_NVML).read(), std::nullopt);
}

TEST(ProcessMemoryTest, IsNotToldWithoutTheLibrary) {
  EXPECT_EQ(ProcessMemory(kBus, "libnvidia-ml-that-nobody-has.so.1").read(), std::nullopt);
  EXPECT_EQ(ProcessMemory(kBus, "libm.so.6").read(), std::nullopt);
}

}  // namespace
}  // namespace spillway::runtime
