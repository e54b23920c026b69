// SPDX-License-Identifier: Apache-2.0
#include "machine/machine_facts.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;

// A /proc and /sys of our own.
class MachineTreeTest : public testing::Test {
 public:
  MachineTreeTest() {
    std::string pattern = (fs::temp_directory_path() / "machine-XXXXXX").string();
    const char* made = mkdtemp(pattern.data());
    if (made == nullptr) throw std::runtime_error("mkdtemp");
    root_ = made;
  }
  ~MachineTreeTest() override { fs::remove_all(root_); }

 protected:
  void write(const std::string& path, const std::string& text) const {
    const fs::path whole = root_ + path;
    fs::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }

  std::string root_;
};

TEST_F(MachineTreeTest, ReadsMemory) {
  write("/proc/meminfo",
        "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n"
        "SwapTotal:       1024 kB\nSwapFree:         512 kB\n");
  const MemoryFacts facts = read_memory(root_);
  EXPECT_EQ(facts.total, kMiB * 16);
  EXPECT_EQ(facts.available, kMiB * 8);
  EXPECT_EQ(facts.swap_total, kMiB);
  EXPECT_EQ(facts.swap_free, kKiB * 512);
}

TEST_F(MachineTreeTest, ReadsNothingFromNothing) {
  EXPECT_EQ(read_memory(root_).total, Bytes{0});
  EXPECT_FALSE(read_cgroup_limit(root_));
  EXPECT_EQ(read_huge_pages(root_), "");
  EXPECT_FALSE(read_max_map_count(root_));
}

//   /            max
//   /a           1 GiB    <- binds
//   /a/b         2 GiB    <- this process
TEST_F(MachineTreeTest, TheLowestLimitOnTheWayUpBinds) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/a/b/memory.max", "2147483648\n");
  const auto limit = read_cgroup_limit(root_);
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->limit, kGiB);
  EXPECT_EQ(limit->version, 2);
  EXPECT_EQ(limit->path, "/a");
}

TEST_F(MachineTreeTest, MaxIsNoLimit) {
  write("/proc/self/cgroup", "0::/a\n");
  write("/sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_FALSE(read_cgroup_limit(root_));
}

// Inside a container the group's path may be that of the host, and only the root is mounted.
TEST_F(MachineTreeTest, VersionOneFallsBackToTheMountedRoot) {
  write("/proc/self/cgroup", "12:cpu:/x\n4:memory:/docker/abc\n0::/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
  const auto limit = read_cgroup_limit(root_);
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->limit, kMiB * 512);
  EXPECT_EQ(limit->version, 1);
}

TEST_F(MachineTreeTest, VersionOneWritesNoLimitAsAHugeNumber) {
  write("/proc/self/cgroup", "4:memory:/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(read_cgroup_limit(root_));
}

TEST_F(MachineTreeTest, UsableMemoryIsTheLowerOfTheTwo) {
  write("/proc/meminfo", "MemTotal: 1048576 kB\n");
  EXPECT_EQ(usable_memory(root_), kGiB);
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "1048576\n");
  EXPECT_EQ(usable_memory(root_), kMiB);
  write("/sys/fs/cgroup/memory.max", "10737418240\n");
  EXPECT_EQ(usable_memory(root_), kGiB);
}

TEST_F(MachineTreeTest, ReadsTheBracketedWord) {
  write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_EQ(read_huge_pages(root_), "madvise");
}

TEST_F(MachineTreeTest, ReadsTheMapCount) {
  write("/proc/sys/vm/max_map_count", "65530\n");
  EXPECT_EQ(read_max_map_count(root_), 65530U);
}

}  // namespace
}  // namespace spillway::tools
