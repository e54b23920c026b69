// SPDX-License-Identifier: Apache-2.0
#include "delayed_ends.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

namespace spillway::tf {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr int kEnds = 50;

// The order in which ends come that were held one after the other.
std::vector<int> order_of(std::uint64_t seed) {
  std::vector<int> called;
  {
    DelayedEnds ends(seed, milliseconds(20));
    for (int i = 0; i < kEnds; ++i) ends.hold([&called, i] { called.push_back(i); });
  }
  return called;
}

TEST(DelayedEndsTest, EachIsCalledOnceAndInAnotherOrder) {
  std::vector<int> called = order_of(1);
  EXPECT_FALSE(std::ranges::is_sorted(called));
  std::ranges::sort(called);
  std::vector<int> each(kEnds);
  std::iota(each.begin(), each.end(), 0);
  EXPECT_EQ(called, each);
}

TEST(DelayedEndsTest, OthersComeInAnotherOrderWithAnotherSeed) {
  EXPECT_NE(order_of(1), order_of(2));
}

TEST(DelayedEndsTest, AnEndComesByItself) {
  DelayedEnds ends(1, milliseconds(2));
  std::promise<void> called;
  ends.hold([&] { called.set_value(); });
  EXPECT_EQ(called.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(DelayedEndsTest, WhatIsFarOffWaitsAndDrainingDoesNot) {
  DelayedEnds ends(1, hours(10));
  std::atomic<int> called = 0;
  for (int i = 0; i < kEnds; ++i) ends.hold([&] { ++called; });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(called, 0);
  ends.drain();
  EXPECT_EQ(called, kEnds);
  ends.hold([&] { ++called; });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(called, kEnds) << "ends are held again";
}

TEST(DelayedEndsTest, AnEndMayHoldAnother) {
  DelayedEnds ends(1, hours(10));
  std::atomic<bool> second = false;
  ends.hold([&] { ends.hold([&] { second = true; }); });
  ends.drain();
  EXPECT_TRUE(second);
}

}  // namespace
}  // namespace spillway::tf
