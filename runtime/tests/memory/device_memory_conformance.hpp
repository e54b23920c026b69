// SPDX-License-Identifier: Apache-2.0
// The promises of every memory of the device tier, whatever its pages are: a typed suite that each
// implementation instantiates with
//
//   struct Tier {
//     using Memory = ...;                                  // a DeviceTier whose blocks are Block
//     static std::unique_ptr<Memory> make(Bytes limit);    // its reservation may be small
//     static AddressRange reservation(const Memory& memory, const Block& first);
//     static constexpr std::uint64_t kPage;                // what it accounts in
//     static constexpr std::uint64_t kBlockAlignment;
//   };
//
// `first` is the first block that the memory handed out.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "resident_pages.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/memory/device_memory.hpp"

namespace spillway::runtime {

template <typename Tier>
class DeviceMemoryConformanceTest : public testing::Test {
 public:
  ~DeviceMemoryConformanceTest() override { arm_faults(""); }

 protected:
  using Memory = typename Tier::Memory;
  static constexpr Bytes kLimit = kMiB * 32;

  Block* allocate(std::uint64_t bytes) {
    const Allocation result = memory_->allocate({bytes}, Overbooking::kRefuse);
    EXPECT_LE(memory_->budget().used(), memory_->budget().limit());
    auto* const block = static_cast<Block*>(result.block);
    if (block != nullptr && first_ == nullptr) first_ = block;
    return block;
  }
  /// As the engine frees: queued first, taken later.
  void free(Block& block) {
    memory_->free_later(block.address);
    drain();
  }
  void drain() {
    std::vector<DeviceBlock*> records;
    memory_->take_freed(records);
    EXPECT_TRUE(records.empty());
  }
  Bytes resident() const { return resident_bytes(Tier::reservation(*memory_, *first_)); }

  std::unique_ptr<Memory> memory_ = Tier::make(kLimit);
  Block* first_ = nullptr;
};

TYPED_TEST_SUITE_P(DeviceMemoryConformanceTest);

TYPED_TEST_P(DeviceMemoryConformanceTest, SaysHowMuchIsShort) {
  Block* large = this->allocate(kMiB.count * 30);
  ASSERT_NE(large, nullptr);
  const Allocation refused = this->memory_->allocate(kMiB * 5, Overbooking::kRefuse);
  EXPECT_EQ(refused.pointer, nullptr);
  EXPECT_EQ(refused.short_by, kMiB * 5 - this->memory_->budget().available());
  const Allocation anyway = this->memory_->allocate(kMiB * 5, Overbooking::kAllow);
  EXPECT_NE(anyway.pointer, nullptr);
  EXPECT_EQ(this->memory_->budget().overshoot(), refused.short_by) << "never silent";
}

TYPED_TEST_P(DeviceMemoryConformanceTest, BlocksAreAlignedAndFoundByEveryAddress) {
  for (const std::uint64_t bytes : {std::uint64_t{40'000}, std::uint64_t{65'536},
                                    std::uint64_t{100'001}, kMiB.count * 2, kMiB.count * 5 + 1}) {
    Block* block = this->allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->address) % TypeParam::kBlockAlignment, 0U);
    EXPECT_EQ(this->memory_->find(block->address), block);
    EXPECT_EQ(this->memory_->find(block->address + bytes - 1), block);
    EXPECT_GE(block->resident, bytes);
  }
  int local = 0;
  EXPECT_EQ(this->memory_->find(&local), nullptr);
  EXPECT_EQ(this->memory_->find(nullptr), nullptr);
}

TYPED_TEST_P(DeviceMemoryConformanceTest, SmallObjectsAreAlignedAndShareBlocks) {
  std::vector<std::byte*> objects;
  for (std::uint64_t bytes = 1; bytes <= 2'000; bytes += 7) {
    const Allocation small = this->memory_->allocate({bytes}, Overbooking::kRefuse);
    ASSERT_NE(small.pointer, nullptr);
    EXPECT_EQ(small.block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.pointer) % 64, 0U);
    std::memset(small.pointer, 1, bytes);
    objects.push_back(small.pointer);
  }
  EXPECT_LE(this->memory_->live(), kMiB * 8);
  for (std::byte* object : objects) this->memory_->free_later(object);
  this->drain();
}

TYPED_TEST_P(DeviceMemoryConformanceTest, AddressesSurviveEvictionAndRestoring) {
  Block* block = this->allocate(1'000'000);
  std::byte* const address = block->address;
  std::memset(address, 3, 1'000'000);
  const Bytes held = this->memory_->budget().used();
  for (int i = 0; i < 3; ++i) {
    this->memory_->evict(*block);
    EXPECT_FALSE(block->accessible);
    EXPECT_EQ(this->memory_->live(), Bytes{0});
    EXPECT_EQ(this->memory_->lingering(), held) << "pages stay until someone needs them";
    if (i != 0) this->memory_->release_idle();
    EXPECT_EQ(this->resident(), this->memory_->budget().used());
    EXPECT_EQ(this->memory_->find(address), block) << "an evicted block keeps its addresses";
    ASSERT_EQ(this->memory_->restore(*block, Overbooking::kRefuse).pointer, address);
    EXPECT_EQ(block->intact, i == 0);
    EXPECT_EQ(address[999'999], i == 0 ? std::byte{3} : std::byte{0});
    EXPECT_EQ(this->memory_->budget().used(), held);
    std::memset(address, 3, 1'000'000);
  }
}

TYPED_TEST_P(DeviceMemoryConformanceTest, ARestoreThatDoesNotFitIsRefused) {
  Block* block = this->allocate(kMiB.count * 20);
  this->memory_->evict(*block);
  Block* other = this->allocate(kMiB.count * 20);
  const Allocation refused = this->memory_->restore(*block, Overbooking::kRefuse);
  EXPECT_EQ(refused.pointer, nullptr);
  EXPECT_EQ(refused.short_by, kMiB * 8);
  this->free(*other);
  EXPECT_NE(this->memory_->restore(*block, Overbooking::kRefuse).pointer, nullptr)
      << "the cached pages of the other were in the way and are released";
}

TYPED_TEST_P(DeviceMemoryConformanceTest, AccountingIsThatOfTheKernel) {
  std::vector<Block*> blocks;
  for (const std::uint64_t bytes : {std::uint64_t{70'000}, std::uint64_t{131'072},
                                    std::uint64_t{1'000'003}, kMiB.count * 5 + 77}) {
    blocks.push_back(this->allocate(bytes));
    std::memset(blocks.back()->address, 1, bytes);
    EXPECT_EQ(this->resident(), this->memory_->budget().used());
  }
  this->memory_->evict(*blocks[3]);
  EXPECT_EQ(this->resident(), this->memory_->budget().used());
  this->free(*blocks[2]);
  EXPECT_EQ(this->memory_->cached(), Bytes{1'003'520});
  EXPECT_EQ(this->resident(), this->memory_->budget().used()) << "cached pages count";
  this->memory_->release_idle();
  EXPECT_EQ(this->memory_->cached(), Bytes{0});
  EXPECT_EQ(this->resident(), this->memory_->budget().used());
}

TYPED_TEST_P(DeviceMemoryConformanceTest, CachedPagesGoUnderPressure) {
  Block* block = this->allocate(kMiB.count * 20);
  std::memset(block->address, 1, kMiB.count * 20);
  this->free(*block);
  EXPECT_EQ(this->memory_->cached(), kMiB * 20);
  EXPECT_EQ(this->memory_->live(), Bytes{0});
  EXPECT_NE(this->allocate(kMiB.count * 30), nullptr);
  EXPECT_EQ(this->memory_->cached(), Bytes{0});
  EXPECT_EQ(this->memory_->live(), kMiB * 30);
}

TYPED_TEST_P(DeviceMemoryConformanceTest, ACachedBlockOfTheSameClassMayGoForItsOwnSuccessor) {
  Block* block = this->allocate(kMiB.count * 29);
  this->free(*block);
  ASSERT_NE(this->allocate(kMiB.count * 2), nullptr);
  EXPECT_NE(this->allocate(kMiB.count * 30), nullptr);
}

TYPED_TEST_P(DeviceMemoryConformanceTest, ALowerLimitIsReachedThroughTheCacheFirst) {
  Block* kept = this->allocate(kMiB.count * 8);
  Block* freed = this->allocate(kMiB.count * 16);
  this->free(*freed);
  this->memory_->set_limit(kMiB * 10);
  const Allocation same = this->memory_->allocate(kMiB * 16, Overbooking::kRefuse);
  EXPECT_EQ(same.pointer, nullptr) << "a cached block is no way around the limit";
  EXPECT_EQ(this->memory_->budget().used(), kMiB * 8);
  EXPECT_NE(kept, nullptr);
}

TYPED_TEST_P(DeviceMemoryConformanceTest, PoisonShowsAUseAfterFree) {
  this->memory_->set_poison(Poison::kYes);
  this->memory_->set_small_objects(SmallObjects::kBlocks);
  Block* block = this->allocate(100'000);
  const std::byte* bytes = block->address;
  std::memset(block->address, 0, 100'000);
  this->free(*block);
  EXPECT_EQ(bytes[0], std::byte{0xff});
  EXPECT_EQ(bytes[99'999], std::byte{0xff});
}

TYPED_TEST_P(DeviceMemoryConformanceTest, BlocksOfStoragesAreHandedToTheirOwner) {
  Block* block = this->allocate(100'000);
  StorageRecord* const record = reinterpret_cast<StorageRecord*>(std::uintptr_t{64});
  block->record = record;
  this->memory_->free_later(block->address);
  std::vector<DeviceBlock*> records;
  this->memory_->take_freed(records);
  ASSERT_EQ(records, std::vector<DeviceBlock*>{block});
  EXPECT_TRUE(block->in_use) << "until the owner frees it";
  block->record = nullptr;
  this->memory_->free_block(*block);
  EXPECT_EQ(this->memory_->live(), Bytes{0});
}

TYPED_TEST_P(DeviceMemoryConformanceTest, WhatWasFreedLastIsTakenFirst) {
  for (const Bytes bytes : {Bytes{256}, Bytes{100'000}}) {
    std::vector<std::byte*> freed(3);
    for (std::byte*& pointer : freed) {
      pointer = this->memory_->allocate(bytes, Overbooking::kRefuse).pointer;
    }
    for (std::byte* pointer : freed) this->memory_->free_later(pointer);
    this->drain();
    EXPECT_EQ(this->memory_->allocate(bytes, Overbooking::kRefuse).pointer, freed.back());
  }
}

TYPED_TEST_P(DeviceMemoryConformanceTest, ARefusalOfTheKernelLosesNothing) {
  Block* block = this->allocate(100'000);
  this->memory_->evict(*block);
  arm_faults("arena.map=ENOMEM@1+");
  const Allocation restored = this->memory_->restore(*block, Overbooking::kRefuse);
  EXPECT_EQ(restored.pointer, nullptr);
  EXPECT_EQ(restored.short_by, Bytes{0});
  EXPECT_EQ(this->allocate(500'000), nullptr);
  EXPECT_EQ(this->memory_->live(), Bytes{0});
  EXPECT_EQ(this->memory_->budget().used(), this->memory_->lingering());
  arm_faults("");
  EXPECT_NE(this->memory_->restore(*block, Overbooking::kRefuse).pointer, nullptr);
}

TYPED_TEST_P(DeviceMemoryConformanceTest, AnyThreadMayFree) {
  constexpr int kThreads = 4;
  constexpr int kEach = 400;
  std::vector<std::vector<std::byte*>> pointers(kThreads);
  for (int i = 0; i < kThreads * kEach; ++i) {
    const std::uint64_t bytes = i % 4 == 0 ? 66'000 : 256;
    const Allocation made = this->memory_->allocate({bytes}, Overbooking::kAllow);
    ASSERT_NE(made.pointer, nullptr);
    pointers[static_cast<std::size_t>(i % kThreads)].push_back(made.pointer);
  }
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  threads.reserve(pointers.size());
  for (const auto& mine : pointers) {
    threads.emplace_back([&] {
      for (std::byte* pointer : mine) this->memory_->free_later(pointer);
      running.fetch_sub(1);
    });
  }
  while (running.load() != 0) this->drain();
  for (std::thread& thread : threads) thread.join();
  this->drain();
  EXPECT_LE(this->memory_->live(), Bytes{Slabs::kMostSpanBytes}) << "one span may stay";
}

/// Blocks come, go, leave and come back; each is full of its own byte while it is accessible.
TYPED_TEST_P(DeviceMemoryConformanceTest, RandomBlocksNeverOverlapNorExceedTheBudget) {
  constexpr std::uint64_t kSeed = 4711;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  struct Held {
    Block* block;
    std::uint8_t content;
    bool evicted;
  };
  std::vector<Held> held;
  const auto fill = [](Held& h) { std::memset(h.block->address, h.content, h.block->bytes); };
  for (int i = 0; i < 1'000; ++i) {
    if (held.empty() || random() % 3 == 0) {
      Block* block = this->allocate(33'000 + random() % (random() % 4 == 0 ? 4'000'000 : 200'000));
      if (block == nullptr) continue;
      held.push_back({block, static_cast<std::uint8_t>(i), false});
      fill(held.back());
      continue;
    }
    std::swap(held[random() % held.size()], held.back());
    Held& chosen = held.back();
    if (chosen.evicted) {
      chosen.evicted =
          this->memory_->restore(*chosen.block, Overbooking::kRefuse).pointer == nullptr;
      if (!chosen.evicted) fill(chosen);
    } else {
      const std::byte* bytes = chosen.block->address;
      const std::byte expected{chosen.content};
      ASSERT_TRUE(std::all_of(bytes, bytes + chosen.block->bytes,
                              [=](std::byte b) { return b == expected; }));
      if (random() % 2 == 0) {
        this->memory_->evict(*chosen.block);
        chosen.evicted = true;
        continue;
      }
      this->free(*chosen.block);
      held.pop_back();
    }
    std::uint64_t pages = 0;
    for (const Held& h : held) pages += h.evicted ? 0 : h.block->resident;
    ASSERT_EQ(this->memory_->live(), Bytes{pages});
    ASSERT_LE(this->memory_->budget().used(), this->memory_->budget().limit());
    if (i % 100 == 0) {
      ASSERT_LE(this->resident(), this->memory_->budget().used());
    }
  }
  EXPECT_EQ(this->memory_->budget().overshoot(), Bytes{0});
}

REGISTER_TYPED_TEST_SUITE_P(
    DeviceMemoryConformanceTest, SaysHowMuchIsShort, BlocksAreAlignedAndFoundByEveryAddress,
    SmallObjectsAreAlignedAndShareBlocks, AddressesSurviveEvictionAndRestoring,
    ARestoreThatDoesNotFitIsRefused, AccountingIsThatOfTheKernel, CachedPagesGoUnderPressure,
    ACachedBlockOfTheSameClassMayGoForItsOwnSuccessor, ALowerLimitIsReachedThroughTheCacheFirst,
    PoisonShowsAUseAfterFree, BlocksOfStoragesAreHandedToTheirOwner, WhatWasFreedLastIsTakenFirst,
    ARefusalOfTheKernelLosesNothing, AnyThreadMayFree, RandomBlocksNeverOverlapNorExceedTheBudget);

}  // namespace spillway::runtime
