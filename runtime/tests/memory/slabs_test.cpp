// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/slabs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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
      slabs_.add_span(fresh_block(slabs_.span_bytes(bytes)), bytes);
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
    EXPECT_LT(memory, block.address + block.bytes);
    return block;
  }
  std::size_t spans_in_use() const { return blocks_.size() - unused_.size(); }
  Bytes held_by_spans() const {
    Bytes held{};
    for (const Block& block : blocks_) {
      if (block.span != nullptr) held += {block.resident};
    }
    return held;
  }

  Slabs slabs_;

 private:
  Block& fresh_block(std::uint64_t bytes) {
    const auto unused = std::ranges::find(unused_, bytes, &Block::bytes);
    if (unused != unused_.end()) {
      Block& block = **unused;
      unused_.erase(unused);
      return block;
    }
    memory_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), &std::free);
    Block& block = blocks_.emplace_back();
    block.address = memory_.back().get();
    block.bytes = block.capacity = block.resident = bytes;
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

TEST_F(SlabsTest, WhatNobodyAskedForIsCounted) {
  EXPECT_EQ(slabs_.unasked(), Bytes{0});
  const Object small = take(65);
  const Bytes span{Slabs::kLeastSpanBytes};
  EXPECT_EQ(slabs_.unasked(), span - Bytes{65}) << "the rest of the span";
  const Object again = take(128);
  EXPECT_EQ(slabs_.unasked(), span - Bytes{65 + 128}) << "of one class";
  const Object large = take(Slabs::kLargestObject);
  const Bytes both = span + Bytes{2 * Slabs::kLargestObject};
  EXPECT_EQ(slabs_.unasked(), both - Bytes{65 + 128 + Slabs::kLargestObject});
  give(small);
  EXPECT_EQ(slabs_.unasked(), both - Bytes{128 + Slabs::kLargestObject});
  give(again);
  give(large);
  EXPECT_EQ(slabs_.unasked(), both) << "the last span of a class stays";
}

TEST_F(SlabsTest, ASpanIsUsedToItsEnd) {
  std::vector<Object> objects;
  while (spans_in_use() <= 1) objects.push_back(take(Slabs::kLargestObject));
  EXPECT_EQ(objects.size(), 2U + 1);
}

// Whatever the sizes and however many of them: a quarter more, and one least span.
TEST_F(SlabsTest, SpansOfAClassGrowWithIt) {
  for (const std::uint64_t bytes :
       {std::uint64_t{64}, std::uint64_t{1024}, std::uint64_t{20'480}}) {
    const Bytes others = slabs_.unasked();
    Bytes asked{};
    for (int i = 0; i < 2'000; ++i) {
      take(bytes);
      asked += {bytes};
      const Bytes least{std::max(Slabs::kLeastSpanBytes, 2 * bytes) + 8192};
      const Bytes quarter = std::min(Bytes{asked.count / 4}, Bytes{Slabs::kMostSpanBytes});
      // Of each span an object that does not fit may be wasted at its end.
      const Bytes ends{spans_in_use() * bytes};
      ASSERT_LE(slabs_.unasked() - others, least + quarter + ends) << i << " of " << bytes;
    }
  }
  EXPECT_LT(spans_in_use(), 400U) << "and not one by one";
}

TEST_F(SlabsTest, EmptySpansGoButTheLastWithRoom) {
  std::vector<Object> objects(6);
  for (Object& object : objects) object = take(Slabs::kLargestObject);
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
  Bytes asked{};
  for (int i = 0; i < 30'000; ++i) {
    if (objects.empty() || random() % 100 < (i % 4000 < 2000 ? 60U : 35U)) {
      Object object = take(1 + random() % (random() % 2 == 0 ? 512 : Slabs::kLargestObject));
      object.content = static_cast<std::uint8_t>(random());
      std::memset(object.memory, object.content, object.bytes);
      objects.push_back(object);
      asked += {object.bytes};
      ASSERT_EQ(slabs_.unasked(), held_by_spans() - asked);
      continue;
    }
    std::swap(objects[random() % objects.size()], objects.back());
    const Object object = objects.back();
    objects.pop_back();
    for (std::uint64_t at = 0; at < object.bytes; ++at) {
      ASSERT_EQ(object.memory[at], std::byte{object.content}) << at << " of " << object.bytes;
    }
    give(object);
    asked -= {object.bytes};
  }
  for (const Object& object : objects) give(object);
  EXPECT_EQ(slabs_.live(), Bytes{0});
}

}  // namespace
}  // namespace spillway::runtime
