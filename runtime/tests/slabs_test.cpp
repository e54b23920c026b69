// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/slabs.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace spillway::runtime {
namespace {

class SlabsTest : public testing::Test {
 protected:
  struct Object {
    std::byte* memory;
    std::uint64_t bytes;
    std::uint8_t content;
  };

  Object take(std::uint64_t bytes) {
    void* memory = slabs_.allocate(bytes);
    if (memory == nullptr) {
      slabs_.add_span(fresh_block(), bytes);
      memory = slabs_.allocate(bytes);
    }
    return {static_cast<std::byte*>(memory), bytes, 0};
  }
  /// Returns whether its span is gone.
  bool give(const Object& object) {
    Block& block = block_of(object.memory);
    const bool emptied = slabs_.free(block, object.memory);
    if (emptied) {
      EXPECT_EQ(block.span, nullptr);
      unused_.push_back(&block);
    }
    return emptied;
  }
  Block& block_of(const std::byte* memory) {
    Block& block = *std::prev(by_address_.upper_bound(memory))->second;
    EXPECT_LT(memory, block.address + Slabs::kSpanBytes);
    return block;
  }
  std::size_t spans_in_use() const { return blocks_.size() - unused_.size(); }

  Slabs slabs_;

 private:
  Block& fresh_block() {
    if (!unused_.empty()) {
      Block& block = *unused_.back();
      unused_.pop_back();
      return block;
    }
    memory_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(4096, Slabs::kSpanBytes)),
                         &std::free);
    Block& block = blocks_.emplace_back();
    block.address = memory_.back().get();
    block.bytes = block.capacity = Slabs::kSpanBytes;
    by_address_.emplace(block.address, &block);
    return block;
  }

  std::deque<Block> blocks_;
  std::vector<Block*> unused_;
  std::map<const std::byte*, Block*> by_address_;
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> memory_;
};

TEST_F(SlabsTest, EverySizeIsServedAlignedAndWithLittleWaste) {
  for (std::uint64_t bytes = 1; bytes <= Slabs::kLargestObject; bytes += bytes < 512 ? 1 : 61) {
    const Bytes before = slabs_.live();
    const Object object = take(bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(object.memory) % 64, 0U);
    const std::uint64_t held = (slabs_.live() - before).count;
    ASSERT_GE(held, bytes);
    ASSERT_TRUE(held <= 256 || held - bytes <= bytes / 4) << bytes << " takes " << held;
    give(object);
  }
  EXPECT_EQ(slabs_.live(), Bytes{0});
}

TEST_F(SlabsTest, ASpanIsUsedToItsEnd) {
  std::vector<Object> objects;
  while (spans_in_use() <= 1) objects.push_back(take(Slabs::kLargestObject));
  EXPECT_EQ(objects.size(), Slabs::kSpanBytes / Slabs::kLargestObject + 1);
}

TEST_F(SlabsTest, EmptySpansGoButTheLastWithRoom) {
  std::vector<Object> objects;
  for (int i = 0; i < 24; ++i) objects.push_back(take(Slabs::kLargestObject));
  ASSERT_EQ(spans_in_use(), 3U);
  for (const Object& object : objects) give(object);
  EXPECT_EQ(spans_in_use(), 1U);
  const Object object = take(Slabs::kLargestObject);
  EXPECT_EQ(spans_in_use(), 1U) << "an object more needs no span";
  EXPECT_FALSE(give(object));
}

TEST_F(SlabsTest, RandomObjectsNeverOverlap) {
  constexpr std::uint64_t kSeed = 977;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  std::vector<Object> objects;
  for (int i = 0; i < 30'000; ++i) {
    if (objects.empty() || random() % 100 < (i % 4000 < 2000 ? 60U : 35U)) {
      Object object = take(1 + random() % (random() % 2 == 0 ? 512 : Slabs::kLargestObject));
      object.content = static_cast<std::uint8_t>(random());
      std::memset(object.memory, object.content, object.bytes);
      objects.push_back(object);
      continue;
    }
    std::swap(objects[random() % objects.size()], objects.back());
    const Object object = objects.back();
    objects.pop_back();
    for (std::uint64_t at = 0; at < object.bytes; ++at) {
      ASSERT_EQ(object.memory[at], std::byte{object.content}) << at << " of " << object.bytes;
    }
    give(object);
  }
  for (const Object& object : objects) give(object);
  EXPECT_EQ(slabs_.live(), Bytes{0});
}

}  // namespace
}  // namespace spillway::runtime
