// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/transfer/extent_allocator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "spillway/base/error.hpp"

namespace spillway::runtime {
namespace {

constexpr std::uint64_t kG = kExtentGranule;

Extent granules(std::uint64_t offset, std::uint64_t count) { return {offset * kG, count * kG}; }

Bytes bytes_of(std::uint64_t count) { return {count * kG}; }

TEST(ExtentAllocatorTest, RoundsUpToTheGranule) {
  ExtentAllocator extents;
  EXPECT_EQ(extents.allocate({1}), granules(0, 1));
  EXPECT_EQ(extents.allocate({kG + 1}), granules(1, 2));
  EXPECT_EQ(extents.end(), 3 * kG);
  EXPECT_EQ(extents.used_bytes(), bytes_of(3));
}

// before  | a a a a | b | c c | d | e e e | f |
// free    |  hole 4 | b |hole2| d | hole 3| f |
// ask 2                 ^^^^^                     the smallest that fits, not the first
// ask 3                           ^^^^^^^
// ask 1     ^                                     what is left of the hole stays a hole
TEST(ExtentAllocatorTest, TakesTheSmallestHoleThatFits) {
  ExtentAllocator extents;
  const Extent a = extents.allocate(bytes_of(4));
  extents.allocate(bytes_of(1));
  const Extent c = extents.allocate(bytes_of(2));
  extents.allocate(bytes_of(1));
  const Extent e = extents.allocate(bytes_of(3));
  extents.allocate(bytes_of(1));
  const std::uint64_t end = extents.end();
  extents.free(a);
  extents.free(c);
  extents.free(e);
  EXPECT_EQ(extents.allocate(bytes_of(2)), c);
  EXPECT_EQ(extents.allocate(bytes_of(3)), e);
  EXPECT_EQ(extents.allocate(bytes_of(1)), granules(0, 1));
  EXPECT_EQ(extents.largest_hole(), bytes_of(3));
  EXPECT_EQ(extents.end(), end);
}

// | a | b | c | d |   free a, c, then b: one hole of three
TEST(ExtentAllocatorTest, JoinsNeighboursOnBothSides) {
  ExtentAllocator extents;
  const Extent a = extents.allocate(bytes_of(1));
  const Extent b = extents.allocate(bytes_of(2));
  const Extent c = extents.allocate(bytes_of(3));
  extents.allocate(bytes_of(1));
  extents.free(a);
  extents.free(c);
  EXPECT_EQ(extents.hole_count(), 2U);
  extents.free(b);
  EXPECT_EQ(extents.hole_count(), 1U);
  EXPECT_EQ(extents.largest_hole(), bytes_of(6));
  EXPECT_EQ(extents.allocate(bytes_of(6)), granules(0, 6));
}

TEST(ExtentAllocatorTest, TrailingFreeSpaceLowersTheEnd) {
  ExtentAllocator extents;
  const Extent a = extents.allocate(bytes_of(2));
  const Extent b = extents.allocate(bytes_of(3));
  const Extent c = extents.allocate(bytes_of(4));
  extents.free(b);
  EXPECT_EQ(extents.end(), 9 * kG);
  extents.free(c);  // takes the hole before it along
  EXPECT_EQ(extents.end(), 2 * kG);
  EXPECT_EQ(extents.hole_count(), 0U);
  extents.free(a);
  EXPECT_EQ(extents.end(), 0U);
  EXPECT_EQ(extents.used_bytes(), Bytes{0});
}

TEST(ExtentAllocatorTest, EndAfterForetellsTheEnd) {
  ExtentAllocator extents;
  const Extent a = extents.allocate(bytes_of(2));
  extents.allocate(bytes_of(1));
  extents.free(a);
  EXPECT_EQ(extents.end_after(bytes_of(2)), extents.end());
  EXPECT_EQ(extents.end_after(bytes_of(3)), extents.end() + 3 * kG);
  EXPECT_EQ(extents.end(), 3 * kG) << "asking must not change anything";
}

TEST(ExtentAllocatorTest, RefusesWhatWasNotAllocated) {
  ExtentAllocator extents;
  const Extent a = extents.allocate(bytes_of(4));
  extents.allocate(bytes_of(1));
  EXPECT_THROW(extents.free({kG / 2, kG}), InternalError);
  EXPECT_THROW(extents.free(granules(4, 2)), InternalError) << "past the end";
  EXPECT_THROW(extents.free({0, 0}), InternalError);
  extents.free(a);
  EXPECT_THROW(extents.free(a), InternalError) << "twice";
  EXPECT_THROW(extents.free(granules(1, 1)), InternalError) << "inside a hole";
  EXPECT_THROW(extents.free(granules(3, 2)), InternalError) << "half in a hole";
  EXPECT_THROW(extents.allocate({0}), InternalError);
  EXPECT_THROW(extents.allocate({~std::uint64_t{0}}), InternalError);
  EXPECT_EQ(extents.used_bytes(), bytes_of(1)) << "a refusal changes nothing";
}

// The same rules on an array with one flag per granule, searched from end to end.
class NaiveModel {
 public:
  Extent allocate(std::uint64_t count) {
    std::optional<Extent> best;
    for (const Extent& hole : holes()) {
      if (hole.bytes >= count * kG && (!best || hole.bytes < best->bytes)) {
        best = hole;
      }
    }
    const std::uint64_t first = best ? best->offset / kG : used_.size();
    used_.resize(std::max<std::size_t>(used_.size(), first + count));
    std::fill_n(used_.begin() + static_cast<std::ptrdiff_t>(first), count, true);
    return granules(first, count);
  }

  void free(Extent extent) {
    std::fill_n(used_.begin() + static_cast<std::ptrdiff_t>(extent.offset / kG), extent.bytes / kG,
                false);
    while (!used_.empty() && !used_.back()) {
      used_.pop_back();
    }
  }

  [[nodiscard]] std::vector<Extent> holes() const {
    std::vector<Extent> found;
    for (std::uint64_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) {
        continue;
      }
      if (!found.empty() && found.back().offset + found.back().bytes == i * kG) {
        found.back().bytes += kG;
      } else {
        found.push_back(granules(i, 1));
      }
    }
    return found;
  }

  [[nodiscard]] std::uint64_t used() const {
    return static_cast<std::uint64_t>(std::ranges::count(used_, true)) * kG;
  }
  [[nodiscard]] std::uint64_t end() const { return used_.size() * kG; }

 private:
  std::vector<bool> used_;
};

class ExtentAllocatorAgainstModelTest : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ExtentAllocatorAgainstModelTest, AgreesOnRandomOperations) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam());
  std::mt19937 random(GetParam());
  ExtentAllocator extents;
  NaiveModel model;
  std::vector<Extent> live;
  for (int step = 0; step < 3000; ++step) {
    // Phases of mostly growing and mostly shrinking, so that both full and empty are reached.
    const bool growing = step / 300 % 2 == 0;
    if (live.empty() || random() % 100 < (growing ? 70U : 35U)) {
      const std::uint64_t count = 1 + random() % (random() % 10 == 0 ? 40 : 6);
      const std::uint64_t foretold = extents.end_after(bytes_of(count));
      const Extent extent = extents.allocate(bytes_of(count));
      ASSERT_EQ(extent, model.allocate(count)) << "step " << step;
      ASSERT_EQ(extents.end(), foretold);
      live.push_back(extent);
    } else {
      std::swap(live[random() % live.size()], live.back());
      extents.free(live.back());
      model.free(live.back());
      live.pop_back();
    }
    ASSERT_EQ(extents.used_bytes().count, model.used()) << "step " << step;
    ASSERT_EQ(extents.end(), model.end()) << "step " << step;
    ASSERT_EQ(extents.hole_count(), model.holes().size()) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExtentAllocatorAgainstModelTest, testing::Range(1U, 9U));

}  // namespace
}  // namespace spillway::runtime
