// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/device_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "device_memory_conformance.hpp"

namespace spillway::runtime {
namespace {

constexpr ArenaOptions kSmallArena{.reservation = Bytes{std::uint64_t{1} << 30},
                                   .minimum = Bytes{std::uint64_t{1} << 28},
                                   .colouring = Colouring::kNo};

template <PageMoves kMoves>
struct RamTier {
  using Memory = DeviceMemory;
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kBlockAlignment = PageMap::kGranule;

  static std::unique_ptr<DeviceMemory> make(Bytes limit) {
    ArenaOptions options = kSmallArena;
    options.moves = kMoves;
    return std::make_unique<DeviceMemory>(limit, options);
  }
  static AddressRange reservation(const DeviceMemory& memory, const Block& first) {
    const auto begin = reinterpret_cast<std::uintptr_t>(first.address);
    return {begin, begin + memory.arena().page_map().carved().count};
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Pool, DeviceMemoryConformanceTest,
                               RamTier<PageMoves::kWherePossible>);
INSTANTIATE_TYPED_TEST_SUITE_P(Plain, DeviceMemoryConformanceTest, RamTier<PageMoves::kNever>);

class DeviceMemoryTest : public testing::Test {
 protected:
  Block* allocate(Bytes bytes) {
    return static_cast<Block*>(memory_.allocate(bytes, Overbooking::kRefuse).block);
  }
  void free(Block* block) {
    memory_.free_later(block->address);
    std::vector<DeviceBlock*> records;
    memory_.take_freed(records);
  }

  DeviceMemory memory_{kMiB * 512, kSmallArena};
};

TEST_F(DeviceMemoryTest, TheCacheStaysNearThePeakOfWhatWasLive) {
  // Six shapes that are never live together: without trimming their sum would be held.
  for (std::uint64_t i = 0; i < 6; ++i) {
    Block* block = allocate(kMiB * (70 + 10 * i));
    ASSERT_NE(block, nullptr);
    free(block);
    EXPECT_LE(memory_.budget().used(), memory_.peak_live() + Bytes{memory_.peak_live().count / 8});
  }
}

TEST_F(DeviceMemoryTest, ThePeakOfWhatWasLiveLeavesTheCacheOut) {
  free(allocate(kMiB * 10));
  Block* block = allocate(kMiB);
  EXPECT_EQ(memory_.budget().used(), kMiB * 11);
  EXPECT_EQ(memory_.peak_live(), kMiB * 10);
  free(block);
  memory_.release_idle();
  memory_.reset_peak();
  EXPECT_EQ(memory_.peak_live(), Bytes{0});
}

TEST_F(DeviceMemoryTest, NearTheLimitASpanIsOfOneObject) {
  constexpr Bytes kObject{Slabs::kLargestObject};
  for (int i = 0; i < 64; ++i) memory_.allocate(kObject, Overbooking::kRefuse);
  // Spans of that class are of eight now.
  const Bytes rest = kObject * 4;
  ASSERT_NE(allocate(memory_.budget().limit() - memory_.budget().used() - rest), nullptr);
  Allocation last;
  do last = memory_.allocate(kObject, Overbooking::kRefuse);
  while (last.pointer != nullptr);
  EXPECT_EQ(memory_.budget().used(), memory_.budget().limit());
  EXPECT_EQ(last.short_by, kObject);
}

TEST_F(DeviceMemoryTest, SpansWithoutObjectsMakeRoom) {
  std::vector<std::byte*> objects;
  for (const std::uint64_t bytes : {64U, 1'000U, 20'000U}) {
    objects.push_back(memory_.allocate({bytes}, Overbooking::kRefuse).pointer);
  }
  for (std::byte* const object : objects) memory_.free_later(object);
  std::vector<DeviceBlock*> records;
  memory_.take_freed(records);
  ASSERT_NE(memory_.live(), Bytes{0}) << "the last span of a class stays";
  EXPECT_NE(allocate(memory_.budget().limit()), nullptr);
  EXPECT_NE(memory_.allocate({64}, Overbooking::kAllow).pointer, nullptr);
}

TEST_F(DeviceMemoryTest, InFuzzModeEveryAllocationIsABlock) {
  memory_.set_small_objects(SmallObjects::kBlocks);
  Block* block = allocate({100});
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(memory_.live(), Bytes{4096});
  memory_.set_small_objects(SmallObjects::kSlabs);
  EXPECT_EQ(allocate({100}), nullptr);
  free(block);
  EXPECT_EQ(memory_.cached(), Bytes{4096});
}

}  // namespace
}  // namespace spillway::runtime
