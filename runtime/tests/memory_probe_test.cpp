// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory_probe.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace spillway::runtime {
namespace {

Bytes budget_now(Bytes ours) {
  return resolve_budget(parse_budget("auto", "budget"), measure_memory(1, ours), "budget");
}

TEST(MemoryProbe, CountsWhatIsThere) {
  const MachineMemory memory = measure_memory(3, kMiB);
  EXPECT_GT(memory.available.count, 0U);
  EXPECT_LT(memory.available, memory.total);
  EXPECT_EQ(memory.ours, kMiB);
  EXPECT_EQ(memory.local_processes, 3U);
}

// What others take is no longer ours to have. Here `others` are bytes that this process does not
// state as its own: the kernel makes no difference.
TEST(MemoryProbe, AutoShrinksByWhatOthersTake) {
  const Bytes taken = kGiB;
  if (measure_memory(1, {}).available < kGiB * 4) GTEST_SKIP() << "less than 4 GiB are available";
  std::int64_t lost = 0;
  // Processes that run beside this test take and free memory, too.
  for (int attempt = 0; attempt < 5; ++attempt) {
    const Bytes before = budget_now({});
    std::vector<char> held(taken.count);
    std::memset(held.data(), 1, held.size());
    const Bytes after = budget_now({});
    EXPECT_EQ(budget_now(taken) > after, true) << "stated as ours it is not lost";
    lost = static_cast<std::int64_t>(before.count) - static_cast<std::int64_t>(after.count);
    const std::int64_t off = std::abs(lost - static_cast<std::int64_t>(taken.count));
    if (off < static_cast<std::int64_t>((kMiB * 100).count)) return;
  }
  FAIL() << "1 GiB was taken, and the budget fell by " << lost << " bytes";
}

TEST(MemoryProbe, KnowsWhatThisProcessHolds) {
  const Bytes before = resident_bytes();
  std::vector<char> held((kMiB * 256).count);
  std::memset(held.data(), 1, held.size());
  EXPECT_GE(resident_bytes(), before + kMiB * 250);
}

}  // namespace
}  // namespace spillway::runtime
