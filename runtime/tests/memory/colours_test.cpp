// SPDX-License-Identifier: Apache-2.0
// The places in their ranges at which blocks begin.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>

#include "spillway/base/error.hpp"
#include "spillway/runtime/memory/device_memory.hpp"

namespace spillway::runtime {
namespace {

constexpr ArenaOptions kOptions{.reservation = Bytes{std::uint64_t{16} << 30},
                                .minimum = Bytes{std::uint64_t{16} << 30}};
constexpr std::uint64_t kLine = 64;

class ColoursTest : public ::testing::Test {
 protected:
  const Block& allocate(Bytes bytes) {
    Block* block = static_cast<Block*>(memory_.allocate(bytes, Overbooking::kRefuse).block);
    SPILLWAY_CHECK(block != nullptr, "more than the limit");
    return *block;
  }
  std::set<std::uint64_t> starts(Bytes bytes, int count) {
    std::set<std::uint64_t> result;
    for (int i = 0; i < count; ++i) result.insert(allocate(bytes).colour());
    return result;
  }

  DeviceMemory memory_{kGiB * 4, kOptions};
};

TEST_F(ColoursTest, LargeBlocksStartAtDifferentPages) {
  const std::set<std::uint64_t> pages = starts(kMiB * 4, 8);
  EXPECT_EQ(pages.size(), 8U);
  for (const std::uint64_t start : pages) EXPECT_EQ(start % kPage, 0U);
}

TEST_F(ColoursTest, SmallBlocksStartAtDifferentLinesOfTheirFirstPage) {
  const std::set<std::uint64_t> lines = starts(kKiB * 64, 16);
  EXPECT_EQ(lines.size(), 16U);
  for (const std::uint64_t start : lines) EXPECT_EQ(start % kLine, 0U);
  EXPECT_LT(*lines.rbegin(), kPage);
}

// One turn for both would give every second colour to each.
TEST_F(ColoursTest, LargeAndSmallTakeTurnsOfTheirOwn) {
  std::set<std::uint64_t> pages;
  for (int i = 0; i < 8; ++i) {
    pages.insert(allocate(kMiB * 4).colour());
    static_cast<void>(allocate(kKiB * 64));
  }
  EXPECT_EQ(pages.size(), 8U);
}

TEST_F(ColoursTest, CostAtMostAPageOfASmallBlock) {
  for (std::uint64_t bytes = 33'000; bytes < kMiB.count; bytes += 10'007) {
    const Block& block = allocate({bytes});
    EXPECT_LE(block.resident, round_up({bytes}, kPage).count + kPage) << bytes;
  }
}

TEST_F(ColoursTest, EveryBlockFitsIntoItsRangeAtEveryColour) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 20'000; ++i) {
    // Both sides of the step from lines to pages, and of those between classes.
    const std::uint64_t edge = Arena::class_capacity(static_cast<std::uint32_t>(random() % 64));
    const std::uint64_t bytes = edge - kPage * 10 + random() % (kPage * 20);
    const Allocation made = memory_.allocate({bytes}, Overbooking::kRefuse);
    ASSERT_NE(made.pointer, nullptr) << bytes;
    if (made.block == nullptr) continue;  // a small object
    ASSERT_LE(as_block(*made.block).colour() + bytes, as_block(*made.block).capacity) << bytes;
    memory_.free_block(*made.block);
  }
}

TEST_F(ColoursTest, SpansOfSmallObjectsStartWithTheirRange) {
  for (int i = 0; i < 200; ++i) {
    const Allocation object = memory_.allocate({3000}, Overbooking::kRefuse);
    const Block* span = memory_.arena().find(object.pointer);
    ASSERT_NE(span, nullptr);
    EXPECT_EQ(span->colour(), 0U);
    EXPECT_EQ(span->resident % kPage, 0U);
    EXPECT_EQ(span->resident, span->bytes) << "no page for a colour";
  }
}

TEST_F(ColoursTest, ABlockKeepsItsAddressWhileItIsEvicted) {
  static_cast<void>(starts(kKiB * 100, 5));
  DeviceBlock& block = *memory_.allocate(kKiB * 100, Overbooking::kRefuse).block;
  const std::byte* const address = block.address;
  ASSERT_NE(as_block(block).lead(), 0U);
  memory_.evict(block);
  memory_.release_idle();
  EXPECT_EQ(memory_.restore(block, Overbooking::kRefuse).pointer, address);
}

}  // namespace
}  // namespace spillway::runtime
