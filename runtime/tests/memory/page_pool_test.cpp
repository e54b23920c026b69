// SPDX-License-Identifier: Apache-2.0
// Pages that move between blocks: what must be true of the kernel's own map while they do.
#include "spillway/runtime/memory/page_pool.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "spillway/base/fault.hpp"
#include "spillway/runtime/memory/device_memory.hpp"

namespace spillway::runtime {
namespace {

constexpr Bytes kReservation{std::uint64_t{8} << 30};
constexpr ArenaOptions kOptions{.reservation = kReservation, .minimum = kReservation};

#define REQUIRE_PAGE_MOVES()                                                        \
  if (!PagePool::why_not().empty()) {                                               \
    GTEST_SKIP() << "pages are not moved on this machine: " << PagePool::why_not(); \
  }                                                                                 \
  static_assert(true, "a semicolon follows")

/// The kernel's view of a reservation.
struct KernelMap {
  std::uint64_t mappings = 0;
  std::uint64_t unmapped = 0;  ///< bytes inside that belong to nobody
  std::uint64_t foreign = 0;   ///< bytes inside that are a file's or shared
  Bytes resident{};
};

KernelMap kernel_map(std::uintptr_t begin, std::uintptr_t end) {
  KernelMap result;
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  std::uintptr_t covered_to = begin;
  bool inside = false;
  while (std::getline(smaps, line)) {
    std::uintptr_t first = 0;
    std::uintptr_t last = 0;
    char mode[5] = {};
    std::uint64_t inode = 0;
    std::uint64_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNu64, &first, &last,
                    mode, &inode) == 4) {
      inside = first < end && last > begin;
      if (!inside) continue;
      ++result.mappings;
      first = std::max(first, begin);
      last = std::min(last, end);
      result.unmapped += first - covered_to;
      covered_to = last;
      if (inode != 0 || mode[3] != 'p') result.foreign += last - first;
    } else if (inside && std::sscanf(line.c_str(), "Rss: %" SCNu64 " kB", &kibibytes) == 1) {
      result.resident += kKiB * kibibytes;
    }
  }
  result.unmapped += end - covered_to;
  return result;
}

class PagePoolTest : public testing::Test {
 public:
  ~PagePoolTest() override { arm_faults(""); }

 protected:
  Block* allocate(Bytes bytes) {
    Block* block = static_cast<Block*>(memory_.allocate(bytes, Overbooking::kRefuse).block);
    if (block != nullptr && begin_ == 0) begin_ = reinterpret_cast<std::uintptr_t>(block->base);
    return block;
  }
  void free(Block* block) {
    memory_.free_later(block->address);
    std::vector<DeviceBlock*> records;
    memory_.take_freed(records);
  }
  KernelMap map() const {
    return kernel_map(begin_, begin_ + memory_.arena().page_map().carved().count);
  }

  DeviceMemory memory_{kMiB * 64, kOptions};
  std::uintptr_t begin_ = 0;
};

TEST_F(PagePoolTest, ABlockTakesTheChunksOfFreedOnesWithoutAFault) {
  REQUIRE_PAGE_MOVES();
  Block* first = allocate(kMiB * 20);
  Block* second = allocate(kMiB * 20);
  std::memset(first->base, 1, kMiB.count * 20);
  std::memset(second->base, 2, kMiB.count * 20);
  free(first);
  free(second);
  Block* large = allocate(kMiB * 40);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(memory_.arena().pool()->moved_chunks(), 20U);
  EXPECT_EQ(large->base[0], std::byte{1}) << "the pages came as they were";
  EXPECT_EQ(large->base[kMiB.count * 40 - 1], std::byte{2});
  EXPECT_LE(map().resident, memory_.budget().used());
  EXPECT_EQ(map().unmapped, 0U);
}

TEST_F(PagePoolTest, WhatMovedPagesLeaveBehindIsInaccessible) {
  REQUIRE_PAGE_MOVES();
  Block* freed = allocate(kMiB * 40);
  std::byte* const stale = freed->address;
  free(freed);
  ASSERT_NE(allocate(kMiB * 50), nullptr);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(stale) = 1, "");
}

TEST_F(PagePoolTest, EvictedPagesAreTakenLastAndThenTheBytesAreGone) {
  REQUIRE_PAGE_MOVES();
  Block* evicted = allocate(kMiB * 20);
  Block* freed = allocate(kMiB * 20);
  memory_.evict(*evicted);
  free(freed);
  ASSERT_NE(allocate(kMiB * 18), nullptr);
  EXPECT_TRUE(evicted->intact);
  ASSERT_NE(allocate(kMiB * 18), nullptr);
  EXPECT_FALSE(evicted->intact);
}

TEST_F(PagePoolTest, ARefusalOfTheKernelIsMetWithFreshPages) {
  REQUIRE_PAGE_MOVES();
  free(allocate(kMiB * 20));
  arm_faults("pool.move=ENOMEM@1+");
  Block* block = allocate(kMiB * 40);
  ASSERT_NE(block, nullptr);
  std::memset(block->address, 1, kMiB.count * 40);
  EXPECT_EQ(memory_.arena().pool()->moved_chunks(), 0U);
  EXPECT_LE(map().resident, memory_.budget().used());
}

// The reason is found once per process: this one starts anew.
TEST(PagePoolAbsenceTest, AProcessWithoutHugePagesHasThePlainArena) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        const DeviceMemory memory(kMiB, kOptions);
        std::cerr << PagePool::why_not();
        std::exit(memory.arena().pool() == nullptr ? 0 : 1);
      },
      testing::ExitedWithCode(0), "PR_SET_THP_DISABLE|huge pages");
}

TEST_F(PagePoolTest, PagesThatAForkSharedAreNotHandedOn) {
  REQUIRE_PAGE_MOVES();
  Block* live = allocate(kMiB * 20);
  Block* idle = allocate(kMiB * 20);
  std::memset(live->address, 1, kMiB.count * 20);
  std::memset(idle->address, 1, kMiB.count * 20);
  free(idle);
  memory_.before_fork();
  EXPECT_EQ(memory_.budget().used(), Bytes{live->resident}) << "a child needs no idle page";
  EXPECT_EQ(live->address[kMiB.count], std::byte{1});
  free(live);
  EXPECT_EQ(memory_.budget().used(), Bytes{0});
  Block* after = allocate(kMiB * 20);
  free(after);
  EXPECT_EQ(memory_.cached(), Bytes{after->resident}) << "those got since then are kept";
}

// ---- Mappings ----------------------------------------------------------------------------------

/// Blocks of many sizes come, go, leave and come back.
void churn(DeviceMemory& memory, int operations, const std::function<void()>& after_each) {
  std::mt19937_64 random(5);
  std::vector<Block*> blocks;
  for (int i = 0; i < operations; ++i) {
    if (blocks.size() < 20 && random() % 2 == 0) {
      const Bytes bytes{40'000 + random() % (24 << 20)};
      if (auto* block = static_cast<Block*>(memory.allocate(bytes, Overbooking::kRefuse).block)) {
        blocks.push_back(block);
      }
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      Block& block = *blocks.back();
      if (!block.accessible) {
        if (memory.restore_apart(block, Overbooking::kRefuse).pointer != nullptr) {
          after_each();
          ASSERT_TRUE(memory.land(block));
        }
      } else if (random() % 2 == 0) {
        memory.seal(block);
        after_each();
        memory.evict(block);
      } else {
        memory.free_block(block);
        blocks.pop_back();
      }
    }
    after_each();
  }
  for (Block* block : blocks) memory.free_block(*block);
}

TEST(MappingsTest, StayBelowTheirBoundAndStitchingStopsAtHalfOfWhatIsAllowed) {
  REQUIRE_PAGE_MOVES();
  ArenaOptions options = kOptions;
  options.mappings = 600;
  DeviceMemory memory(kMiB * 160, options);
  const Arena& arena = memory.arena();
  const PageMap& map = arena.page_map();
  int stops = 0;
  int resumptions = 0;
  bool stopped = false;
  std::uint64_t most = 0;
  int operations = 0;
  churn(memory, 20'000, [&] {
    const std::uint64_t bound = arena.mappings().bound();
    ASSERT_LE(bound, options.mappings / 2 + arena.block_count());
    if (arena.mappings().may_move() == stopped) {
      stopped = !stopped;
      ++(stopped ? stops : resumptions);
    }
    if (++operations % 16 == 0) {
      const KernelMap seen = kernel_map(map.begin(), map.begin() + map.reserved().count);
      most = std::max(most, seen.mappings);
      ASSERT_LE(seen.mappings, bound);
      ASSERT_EQ(seen.unmapped, 0U);
      ASSERT_LE(seen.resident, memory.budget().used());
    }
  });
  EXPECT_GE(stops, 1) << "the stop was not reached";
  EXPECT_GE(resumptions, 1) << "blocks mapped anew make room again";
  EXPECT_GT(arena.pool()->moved_chunks(), 1'000U);
  EXPECT_LE(most, options.mappings / 2);
  EXPECT_EQ(memory.live(), Bytes{0});
}

// Every other block evicted: two mappings for each pair, of as many as the kernel allows.
TEST(MappingsTest, MoreEvictedNeighboursThanTheKernelAllowsMappingsAreServed) {
  DeviceMemory memory(kGiB * 16, kOptions);
  const std::uint64_t allowed = memory.arena().mappings().allowed();
  if (allowed > 300'000) GTEST_SKIP() << allowed << " mappings are allowed: too many to reach";
  std::vector<Block*> blocks;
  for (std::uint64_t i = 0; i < allowed + 1'000; ++i) {
    blocks.push_back(static_cast<Block*>(memory.allocate({40'000}, Overbooking::kRefuse).block));
    ASSERT_NE(blocks.back(), nullptr) << i;
    if (i % 2 == 0) memory.evict(*blocks.back());
  }
  const PageMap& map = memory.arena().page_map();
  const std::uint64_t seen = kernel_map(map.begin(), map.begin() + map.reserved().count).mappings;
  EXPECT_GT(seen, allowed / 2) << "as far as there is room they are inaccessible";
  EXPECT_LE(seen, allowed / 4 * 3 + 2);
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    ASSERT_NE(memory.restore(*blocks[i], Overbooking::kRefuse).pointer, nullptr) << i;
    blocks[i]->address[0] = std::byte{1};
  }
}

// ---- Many threads -------------------------------------------------------------------------------

constexpr int kThreads = 8;

std::uint64_t operations() {
  const char* text = std::getenv("STRESS_OPERATIONS");
  return text == nullptr ? 100'000 : std::strtoull(text, nullptr, 10);
}

/// Blocks of eight threads come, go, leave and come back under one lock, as in the engine. Of each
/// a naive model knows what must be in it; a word of every page says whether it is.
class Storm {
 public:
  explicit Storm(DeviceMemory& memory) : memory_(memory) {}

  void run(std::uint64_t total) {
    std::thread foreigner([this] { make_foreign_mappings(); });
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([this, i, total] { work(static_cast<std::uint64_t>(i), total); });
    }
    for (std::thread& thread : threads) thread.join();
    over_.store(true);
    foreigner.join();
  }

  std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> forks{0};
  std::atomic<std::uint64_t> recalls{0};
  std::atomic<std::uint64_t> most_mappings{0};
  std::atomic<std::uint64_t> looks{0};
  std::atomic<std::uint64_t> foreign_mappings{0};

 private:
  struct Held {
    Block* block;
    std::uint64_t seed;
    bool evicted;
  };
  static constexpr std::uint64_t kStride = 4096;

  static void fill(const Held& held) {
    for (std::uint64_t at = 0; at + 8 <= held.block->bytes; at += kStride) {
      const std::uint64_t word = held.seed + at;
      std::memcpy(held.block->holder().address + at, &word, sizeof word);
    }
  }
  static bool holds(const Held& held) {
    for (std::uint64_t at = 0; at + 8 <= held.block->bytes; at += kStride) {
      std::uint64_t word = 0;
      std::memcpy(&word, held.block->address + at, sizeof word);
      if (word != held.seed + at) return false;
    }
    return true;
  }

  void work(std::uint64_t number, std::uint64_t total) {
    std::mt19937_64 random(number);
    std::vector<Held> mine;
    for (std::uint64_t at = done.fetch_add(1); at < total; at = done.fetch_add(1)) {
      if (at % (total / 400) == 0) look_at_kernel();
      if (at % (total / 40) == total / 50) fork_once(mine);
      one_turn(random, mine);
    }
    for (const Held& held : mine) {
      const std::lock_guard lock(mutex_);
      memory_.free_block(*held.block);
    }
  }

  void one_turn(std::mt19937_64& random, std::vector<Held>& mine) {
    if (mine.empty() || (mine.size() < 24 && random() % 3 == 0)) return make(random, mine);
    std::swap(mine[random() % mine.size()], mine.back());
    Held& held = mine.back();
    if (held.evicted) return bring_back(held);
    if (!holds(held)) wrong.fetch_add(1);
    const std::lock_guard lock(mutex_);
    if (random() % 2 == 0) {
      memory_.evict(*held.block);
      held.evicted = true;
    } else {
      memory_.free_block(*held.block);
      mine.pop_back();
    }
  }

  void make(std::mt19937_64& random, std::vector<Held>& mine) {
    const std::uint64_t most = random() % 8 == 0 ? 12 << 20 : 400'000;
    Allocation made;
    {
      const std::lock_guard lock(mutex_);
      made = memory_.allocate({40'000 + random() % most}, Overbooking::kRefuse);
    }
    if (made.block == nullptr) return;
    mine.push_back({static_cast<Block*>(made.block), random(), false});
    fill(mine.back());
  }

  void bring_back(Held& held) {
    {
      const std::lock_guard lock(mutex_);
      if (memory_.restore_apart(*held.block, Overbooking::kRefuse).pointer == nullptr) return;
      held.evicted = false;
    }
    if (!held.block->intact) {
      fill(held);
      const std::lock_guard lock(mutex_);
      if (!memory_.land(*held.block)) wrong.fetch_add(1);
      held.block->intact = true;
      return;
    }
    recalls.fetch_add(1);
    if (!holds(held)) wrong.fetch_add(1);
  }

  // The child's copy must be right, and the parent's pages must stay its own.
  void fork_once(const std::vector<Held>& mine) {
    pid_t child = -1;
    {
      const std::lock_guard lock(mutex_);
      memory_.before_fork();
      child = ::fork();
    }
    if (child == 0) {
      const bool right =
          std::ranges::all_of(mine, [](const Held& held) { return held.evicted || holds(held); });
      ::_exit(right ? 0 : 1);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) wrong.fetch_add(1);
    forks.fetch_add(1);
  }

  // A mapping of the program or its libraries settles wherever nothing is mapped. In a hole it
  // would be destroyed when pages move there. One is asked for right inside the reservation, which
  // the kernel grants in a hole alone; one may go anywhere and must keep its bytes. Without a lock:
  // a hole that is open for a moment counts.
  void make_foreign_mappings() {
    constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;
    std::mt19937_64 random(kThreads);
    while (!over_.load()) {
      const std::uint64_t carved = carved_.load();
      if (carved < kChunk) continue;
      auto* const inside =
          reinterpret_cast<void*>(begin_.load() + random() % (carved / kChunk) * kChunk);
      void* const settled = ::mmap(inside, 4096, PROT_NONE, kPrivate | MAP_FIXED_NOREPLACE, -1, 0);
      if (settled != MAP_FAILED) {
        wrong.fetch_add(1);
        ::munmap(settled, 4096);
      }
      void* const anywhere = ::mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, kPrivate, -1, 0);
      if (anywhere == MAP_FAILED) continue;
      const std::uint64_t word = random();
      std::memcpy(anywhere, &word, sizeof word);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (std::memcmp(anywhere, &word, sizeof word) != 0) wrong.fetch_add(1);
      ::munmap(anywhere, kChunk);
      foreign_mappings.fetch_add(1);
    }
  }

  void look_at_kernel() {
    const std::lock_guard lock(mutex_);
    looks.fetch_add(1);
    begin_.store(memory_.arena().page_map().begin());
    carved_.store(memory_.arena().page_map().carved().count);
    const PageMap& map = memory_.arena().page_map();
    const KernelMap seen = kernel_map(map.begin(), map.begin() + map.reserved().count);
    if (seen.unmapped != 0 || seen.foreign != 0) wrong.fetch_add(1);
    if (seen.resident > memory_.budget().used()) wrong.fetch_add(1);
    if (seen.mappings > memory_.arena().mappings().bound()) wrong.fetch_add(1);
    most_mappings.store(std::max(most_mappings.load(), seen.mappings));
  }

  DeviceMemory& memory_;
  std::mutex mutex_;
  std::atomic<bool> over_{false};
  std::atomic<std::uintptr_t> begin_{0};  // of the reservation
  std::atomic<std::uint64_t> carved_{0};
};

TEST(PagePoolStressTest, EightThreadsNeverSeeAWrongByteNorAHoleInTheReservation) {
  REQUIRE_PAGE_MOVES();
  DeviceMemory memory(kMiB * 192, kOptions);
  Storm storm(memory);
  const std::uint64_t total = operations();
  storm.run(total);
  EXPECT_EQ(storm.wrong.load(), 0U);
  EXPECT_GE(storm.forks.load(), 20U);
  EXPECT_GE(storm.looks.load(), 400U);
  EXPECT_GE(storm.foreign_mappings.load(), 400U);
  EXPECT_GT(storm.recalls.load(), total / 1'000);
  EXPECT_GT(memory.arena().pool()->moved_chunks(), total / 100);
  EXPECT_EQ(memory.live(), Bytes{0});
  EXPECT_EQ(memory.budget().overshoot(), Bytes{0});
  std::cout << total << " operations, " << storm.forks << " forks, " << storm.recalls
            << " recalls, " << memory.arena().pool()->moved_chunks() << " chunks moved, at most "
            << storm.most_mappings << " mappings, " << storm.foreign_mappings
            << " foreign ones came and went, " << storm.looks << " looks at the kernel's map\n";
}

}  // namespace
}  // namespace spillway::runtime
