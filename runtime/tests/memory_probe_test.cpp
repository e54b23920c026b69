// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory_probe.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace spillway::runtime {
namespace {

constexpr Bytes kRam = kGiB * 64;
constexpr Bytes kFree = kGiB * 40;

// A machine in files: what /proc and the cgroups of one process say.
class MemoryProbeTest : public testing::Test {
 public:
  MemoryProbeTest() {
    std::string path = testing::TempDir() + "/memory-probe-XXXXXX";
    root_ = ::mkdtemp(path.data());
    write("/proc/meminfo", "MemTotal: " + kib(kRam) +
                               " kB\nMemFree: 1024 kB\nMemAvailable: " + kib(kFree) + " kB\n");
    write("/proc/self/cgroup", "0::/\n");
  }
  ~MemoryProbeTest() override { std::filesystem::remove_all(root_); }

 protected:
  static std::string kib(Bytes bytes) { return std::to_string(bytes.count / 1024); }
  static std::string text(Bytes bytes) { return std::to_string(bytes.count) + "\n"; }

  void write(const std::string& path, const std::string& content) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  [[nodiscard]] MachineMemory measured() const { return measure_memory(1, {}, root_); }

  std::string root_;
};

TEST_F(MemoryProbeTest, OtherProcessesLeaveWhatIsAvailable) {
  EXPECT_EQ(measured().total, kRam);
  EXPECT_EQ(measured().available, kFree);
  const MachineMemory one_of_three = measure_memory(3, kMiB, root_);
  EXPECT_EQ(one_of_three.ours, kMiB);
  EXPECT_EQ(one_of_three.local_processes, 3U);
}

TEST_F(MemoryProbeTest, TheTightestGroupAboveCounts) {
  write("/proc/self/cgroup", "0::/users/job\n");
  write("/sys/fs/cgroup/users/memory.max", text(kGiB * 16));
  write("/sys/fs/cgroup/users/memory.current", text(kGiB * 12));
  write("/sys/fs/cgroup/users/memory.stat",
        "anon 1\ninactive_file " + text(kGiB * 2) + "active_file " + text(kGiB * 1) + "shmem 5\n");
  write("/sys/fs/cgroup/users/job/memory.max", "max\n");
  EXPECT_EQ(measured().total, kGiB * 16);
  EXPECT_EQ(measured().available, kGiB * 7)
      << "the page cache is given up before anyone is refused";
  write("/sys/fs/cgroup/users/job/memory.max", text(kGiB * 8));
  write("/sys/fs/cgroup/users/job/memory.current", text(kGiB * 3));
  EXPECT_EQ(measured().total, kGiB * 8);
  EXPECT_EQ(measured().available, kGiB * 5);
  write("/sys/fs/cgroup/users/job/memory.current", text(kGiB * 9));
  EXPECT_EQ(measured().available, Bytes{}) << "a limit that was lowered below what is used";
}

TEST_F(MemoryProbeTest, OldGroupsAreKnownToo) {
  write("/proc/self/cgroup", "5:devices:/\n4:cpu,memory:/job\n0::/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", text(kGiB * 16));
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", text(kGiB * 10));
  write("/sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 7\ntotal_inactive_file " + text(kGiB * 4));
  EXPECT_EQ(measured().total, kGiB * 16);
  EXPECT_EQ(measured().available, kGiB * 10);
}

TEST(ThisMachineTest, ThisMachineHasMemory) {
  const MachineMemory memory = measure_memory(1, {});
  EXPECT_GT(memory.available.count, 0U);
  EXPECT_LT(memory.available, memory.total);
}

TEST(ThisMachineTest, KnowsWhatThisProcessHolds) {
  const Bytes before = resident_bytes();
  std::vector<char> held((kMiB * 256).count);
  std::memset(held.data(), 1, held.size());
  asm volatile("" : : "r"(held.data()) : "memory");  // clang leaves out what nobody can look at
  EXPECT_GE(resident_bytes(), before + kMiB * 250);
  EXPECT_EQ(held.back(), 1);
}

}  // namespace
}  // namespace spillway::runtime
