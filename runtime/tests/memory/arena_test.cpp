// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/arena.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "resident_pages.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"

namespace spillway::runtime {
namespace {

constexpr ArenaOptions kSmallArena{.reservation = Bytes{std::uint64_t{1} << 30},
                                   .minimum = Bytes{std::uint64_t{1} << 28},
                                   .colouring = Colouring::kNo};

class ArenaTest : public testing::Test {
 public:
  ~ArenaTest() override { arm_faults(""); }

 protected:
  Block* allocate(std::uint64_t bytes) {
    Block* block = arena_.claim({bytes});
    if (block == nullptr) return nullptr;
    if (fill(*block, bytes)) {
      block->intact = true;
      return block;
    }
    arena_.give_up(*block);
    return nullptr;
  }
  bool restore(Block& block) {
    arena_.recall(block);
    if (fill(block, block.bytes)) return true;
    arena_.linger(block);
    return false;
  }
  bool fill(Block& block, std::uint64_t bytes) {
    arena_.gather(block, {bytes});
    auto promise = budget_.try_reserve(Arena::missing(block, {bytes}), Overbooking::kRefuse);
    return promise && arena_.open(block, {bytes}, *promise);
  }

  MemoryBudget budget_{kMiB * 64};
  Arena arena_{budget_, kSmallArena};
};

TEST(ArenaClassesTest, EveryClassHoldsItsSizesAndWastesAnEighthAtMost) {
  std::uint64_t previous = 0;
  for (std::uint32_t index = 0; index < 200; ++index) {
    const std::uint64_t capacity = Arena::class_capacity(index);
    ASSERT_GT(capacity, previous);
    ASSERT_EQ(Arena::class_of(capacity), index);
    ASSERT_EQ(Arena::class_of(previous + 1), index);
    ASSERT_TRUE(index == 0 || capacity - previous <= previous / 8) << capacity;
    previous = capacity;
  }
}

TEST_F(ArenaTest, PagesAreHeldForWhatWasAskedFor) {
  Block* block = allocate(100'000);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->resident, 25U * 4096);
  EXPECT_GE(block->capacity, block->resident);
  EXPECT_EQ(budget_.used(), Bytes{25U * 4096});
  EXPECT_EQ(arena_.find(block->address), block);
  EXPECT_EQ(arena_.find(block->address + 99'999), block);
  EXPECT_EQ(arena_.find(this), nullptr);
}

TEST_F(ArenaTest, AFreedBlockIsUsedAgainWithItsPages) {
  Block* block = allocate(100'000);
  std::byte* address = block->address;
  arena_.free_block(*block);
  EXPECT_EQ(arena_.cached(), Bytes{25U * 4096});
  EXPECT_EQ(Arena::missing(*block, {100'000}), Bytes{0});
  EXPECT_EQ(Arena::missing(*block, {104'000}), Bytes{4096}) << "a larger one of the same class";
  Block* again = allocate(104'000);
  EXPECT_EQ(again->address, address);
  EXPECT_EQ(budget_.used(), Bytes{26U * 4096});
  EXPECT_EQ(arena_.cached(), Bytes{0});
}

TEST_F(ArenaTest, TheOldestCachedBlocksGoFirst) {
  Block* first = allocate(200'000);
  Block* second = allocate(300'000);
  Block* third = allocate(200'000);
  arena_.free_block(*second);
  arena_.free_block(*third);
  arena_.free_block(*first);
  EXPECT_EQ(arena_.release_idle({1}), Bytes{74U * 4096});
  EXPECT_EQ(second->resident, 0U);
  EXPECT_NE(third->resident, 0U);
  EXPECT_EQ(arena_.release_idle(kMiB), Bytes{98U * 4096});
  EXPECT_EQ(budget_.used(), Bytes{0});
  EXPECT_EQ(arena_.release_idle(kMiB), Bytes{0});
}

TEST_F(ArenaTest, AnEvictedBlockKeepsItsBytesUntilItsPagesGo) {
  Block* block = allocate(100'000);
  std::byte* address = block->address;
  std::memset(address, 7, 100'000);
  arena_.evict(*block);
  EXPECT_FALSE(block->accessible);
  EXPECT_EQ(arena_.lingering(), Bytes{25U * 4096});
  ASSERT_TRUE(restore(*block));
  EXPECT_TRUE(block->intact);
  EXPECT_EQ(address[99'999], std::byte{7});
  arena_.evict(*block);
  arena_.release_idle({1});
  EXPECT_EQ(budget_.used(), Bytes{0});
  ASSERT_TRUE(restore(*block));
  EXPECT_FALSE(block->intact);
  EXPECT_EQ(block->address, address);
  EXPECT_EQ(budget_.used(), Bytes{25U * 4096});
  EXPECT_EQ(address[0], std::byte{0});
  EXPECT_EQ(address[99'999], std::byte{0});
}

TEST_F(ArenaTest, PagesOfFreedBlocksGoBeforeThoseOfEvictedOnes) {
  Block* evicted = allocate(200'000);
  Block* freed = allocate(300'000);
  arena_.evict(*evicted);
  arena_.free_block(*freed);
  arena_.release_idle({1});
  EXPECT_EQ(freed->resident, 0U);
  EXPECT_TRUE(evicted->intact);
}

TEST_F(ArenaTest, AnEvictedBlockIsInaccessible) {
  Block* block = allocate(100'000);
  arena_.evict(*block);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(block->address) = 1, "");
}

// Locked pages are refused to be given back: held, and counted as free.
TEST_F(ArenaTest, WhatTheProgramLockedIsGivenBack) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "mlock and munlock do nothing under a sanitizer";
#endif
  Block* kept = allocate(300'000);
  Block* freed = allocate(1'000'000);
  std::memset(kept->address, 1, 300'000);
  std::memset(freed->address, 2, 1'000'000);
  const auto first = arena_.page_map().begin();
  const AddressRange range{first, first + arena_.page_map().carved().count};
  if (::mlock(kept->base, range.end - reinterpret_cast<std::uintptr_t>(kept->base)) != 0) {
    GTEST_SKIP() << "memory can't be locked here: " << std::strerror(errno);
  }
  ASSERT_GT(resident_bytes(range), budget_.used()) << "locking gets pages for all of a block";
  arena_.free_block(*freed);
  arena_.release_idle(kMiB);
  EXPECT_EQ(budget_.used(), Bytes{kept->resident});
  EXPECT_EQ(resident_bytes(range), budget_.used());
  EXPECT_EQ(kept->address[299'999], std::byte{1});
}

TEST(ArenaLockedTest, WhatIsReservedUnderALockOfAllMemoryTakesNone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        if (::mlockall(MCL_FUTURE) != 0) std::exit(2);
        MemoryBudget budget(kMiB * 64);
        ArenaOptions options = kSmallArena;
        options.reservation = kGiB * 512;  // whose map of blocks is 64 MiB
        const Bytes before = resident_bytes();
        const Arena arena(budget, options);
        std::exit(saturating_sub(resident_bytes(), before) < kMiB * 2 ? 0 : 1);
      },
      [](int status) { return status == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 2); },
      "");
}

TEST_F(ArenaTest, ABlockFreedWhileEvictedIsUsableAgain) {
  Block* block = allocate(100'000);
  arena_.evict(*block);
  arena_.free_block(*block);
  EXPECT_EQ(arena_.lingering(), Bytes{0});
  EXPECT_EQ(arena_.cached(), Bytes{25U * 4096});
  Block* again = allocate(100'000);
  ASSERT_EQ(again, block);
  std::memset(again->address, 1, 100'000);
}

TEST_F(ArenaTest, FreeingTwiceIsNoticed) {
  Block* block = allocate(100'000);
  arena_.free_block(*block);
  EXPECT_THROW(arena_.free_block(*block), InternalError);
}

TEST_F(ArenaTest, ARefusedMappingLosesNothing) {
  Block* block = allocate(100'000);
  arena_.evict(*block);
  arm_faults("arena.map=ENOMEM@1+");
  EXPECT_FALSE(restore(*block));
  EXPECT_EQ(allocate(500'000), nullptr);
  EXPECT_EQ(budget_.used(), arena_.lingering());
  arm_faults("");
  EXPECT_TRUE(restore(*block));
  const std::size_t blocks = arena_.block_count();
  EXPECT_NE(allocate(500'000), nullptr);
  EXPECT_EQ(arena_.block_count(), blocks) << "the address range of the refused one is used";
}

TEST_F(ArenaTest, AbsurdSizesAreRefused) {
  EXPECT_EQ(allocate(std::uint64_t{1} << 31), nullptr) << "beyond the budget";
  MemoryBudget endless({std::uint64_t{1} << 62});
  Arena arena(endless, kSmallArena);
  for (const std::uint64_t bytes :
       {std::uint64_t{1} << 31, std::uint64_t{1} << 44, std::uint64_t{1} << 61,
        std::numeric_limits<std::uint64_t>::max()}) {
    EXPECT_EQ(arena.claim({bytes}), nullptr) << bytes;
    EXPECT_EQ(endless.used(), Bytes{0});
  }
}

TEST_F(ArenaTest, HugePagesNeverReachBeyondWhatIsHeld) {
  constexpr std::uint64_t kHuge = 2 << 20;
  Block* block = allocate(4 * kMiB.count);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->base) % kHuge, 0U);
  EXPECT_EQ(block->huge, 2 * kHuge);
  arena_.free_block(*block);
  arena_.release_idle(kMiB * 64);
  Block* smaller = allocate(4 * kMiB.count - 100'000);
  ASSERT_EQ(smaller, block);
  EXPECT_EQ(smaller->huge, kHuge) << "the second huge page would be held in part only";
}

TEST(ArenaReservationTest, AnImpossibleReservationNamesTheLimit) {
  MemoryBudget budget(kMiB);
  const Bytes impossible{std::uint64_t{1} << 50};
  try {
    const Arena arena(budget, ArenaOptions{.reservation = impossible, .minimum = impossible});
    FAIL() << "there is no such machine";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("ulimit -v"), std::string::npos);
  }
}

TEST(PageMapTest, RangesDoNotOverlapAndEndWithTheReservation) {
  PageMap map({std::uint64_t{1} << 24}, {std::uint64_t{1} << 24});
  const std::byte* end = nullptr;
  std::uint64_t carved = 0;
  while (std::byte* range = map.carve(100'000, PageMap::kGranule)) {
    EXPECT_GE(range, end);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(range) % PageMap::kGranule, 0U);
    end = range + 100'000;
    ++carved;
  }
  EXPECT_GE(carved, 127U);
  EXPECT_LE(map.carved(), map.reserved());
}

// An address space of 128 TiB has room for fifteen of these at once.
TEST(PageMapTest, ARangeIsGivenBackWithItsMap) {
  Bytes first{};
  for (int i = 0; i < 40; ++i) {
    PageMap map({std::uint64_t{8} << 40}, {std::uint64_t{8} << 30});
    if (i == 0) first = map.reserved();
    ASSERT_EQ(map.reserved(), first) << "of map " << i;
    ASSERT_NE(map.carve(100'000, PageMap::kGranule), nullptr);
  }
}

}  // namespace
}  // namespace spillway::runtime
