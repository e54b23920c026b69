// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/host_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <random>

#include "spillway/base/fault.hpp"

namespace spillway::runtime {
namespace {

constexpr Bytes kPage = HostMemory::kPage;

class HostMemoryTest : public testing::Test {
 public:
  HostMemoryTest() { memory_.set_limit({kPage.count * 4}); }
  ~HostMemoryTest() override { arm_faults(""); }

 protected:
  HostMemory memory_;
};

TEST_F(HostMemoryTest, ACopyTakesWholePagesThatBeginOnOne) {
  std::byte* copy = memory_.allocate({kPage.count + 1});
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(copy) % kPage.count, 0U);
  EXPECT_EQ(memory_.budget().used(), Bytes{kPage.count * 2});
  std::memset(copy, 1, kPage.count * 2);  // all of them are the copy's
  static_cast<void>(memory_.give_back(copy, {kPage.count + 1}));
  EXPECT_EQ(memory_.budget().used(), Bytes{0});
}

TEST_F(HostMemoryTest, TheBudgetIsNeverExceeded) {
  std::byte* three = memory_.allocate({kPage.count * 3});
  ASSERT_NE(three, nullptr);
  EXPECT_EQ(memory_.short_by(kPage), Bytes{0});
  EXPECT_EQ(memory_.short_by({kPage.count * 2}), kPage);
  EXPECT_EQ(memory_.allocate({kPage.count * 2}), nullptr);
  std::byte* last = memory_.allocate(kPage);
  EXPECT_NE(last, nullptr);
  EXPECT_EQ(memory_.allocate({1}), nullptr);
  EXPECT_EQ(memory_.budget().overshoot(), Bytes{0});
  static_cast<void>(memory_.give_back(three, {kPage.count * 3}));
  static_cast<void>(memory_.give_back(last, kPage));
}

TEST_F(HostMemoryTest, TheRoomOfWhatIsGivenBackIsFreeBeforeItsMemoryIs) {
  std::byte* copy = memory_.allocate({kPage.count * 4});
  ASSERT_NE(copy, nullptr);
  const HostPages pages = memory_.give_back(copy, {kPage.count * 4});
  EXPECT_EQ(pages.get(), copy);
  std::memset(copy, 1, kPage.count * 4);  // still there
  std::byte* other = memory_.allocate({kPage.count * 4});
  ASSERT_NE(other, nullptr);
  EXPECT_NE(other, copy);
  static_cast<void>(memory_.give_back(other, {kPage.count * 4}));
}

TEST_F(HostMemoryTest, WithoutABudgetThereIsNoTier) {
  HostMemory none;
  EXPECT_FALSE(none.could_hold({0}));
  EXPECT_FALSE(none.could_hold({1}));
  EXPECT_EQ(none.allocate({1}), nullptr);
}

TEST_F(HostMemoryTest, WhatIsLargerThanTheTierCouldNeverBeThere) {
  EXPECT_TRUE(memory_.could_hold({kPage.count * 4}));
  EXPECT_FALSE(memory_.could_hold({kPage.count * 4 + 1}));
}

TEST_F(HostMemoryTest, ALowerLimitTakesNothingAway) {
  std::byte* copy = memory_.allocate({kPage.count * 3});
  ASSERT_NE(copy, nullptr);
  memory_.set_limit(kPage);
  EXPECT_EQ(memory_.short_by(kPage), Bytes{kPage.count * 3});
  EXPECT_EQ(memory_.allocate(kPage), nullptr);
  static_cast<void>(memory_.give_back(copy, {kPage.count * 3}));
  copy = memory_.allocate(kPage);
  ASSERT_NE(copy, nullptr);
  static_cast<void>(memory_.give_back(copy, kPage));
}

TEST_F(HostMemoryTest, AMachineWithoutMemoryTakesNothingFromTheBudget) {
  arm_faults("host.allocate=ENOMEM@1");
  EXPECT_EQ(memory_.allocate(kPage), nullptr);
  EXPECT_EQ(memory_.budget().used(), Bytes{0});
  std::byte* copy = memory_.allocate(kPage);
  EXPECT_NE(copy, nullptr);
  static_cast<void>(memory_.give_back(copy, kPage));
}

TEST_F(HostMemoryTest, TheAccountIsThatOfTheCopies) {
  std::mt19937_64 random(7);
  memory_.set_limit({kPage.count * 64});
  struct Copy {
    std::byte* memory;
    Bytes bytes;
  };
  std::deque<Copy> copies;
  Bytes expected{};
  for (int i = 0; i < 2000; ++i) {
    const Bytes bytes{random() % (kPage.count * 8) + 1};
    const Bytes pages = round_up(bytes, kPage.count);
    std::byte* memory = memory_.allocate(bytes);
    ASSERT_EQ(memory != nullptr, expected + pages <= memory_.budget().limit()) << i;
    if (memory != nullptr) {
      expected += pages;
      copies.push_back({memory, bytes});
    }
    if (memory == nullptr || random() % 2 == 0) {
      static_cast<void>(memory_.give_back(copies.front().memory, copies.front().bytes));
      expected -= round_up(copies.front().bytes, kPage.count);
      copies.pop_front();
    }
    ASSERT_EQ(memory_.budget().used(), expected) << i;
  }
  for (const Copy& copy : copies) static_cast<void>(memory_.give_back(copy.memory, copy.bytes));
}

}  // namespace
}  // namespace spillway::runtime
