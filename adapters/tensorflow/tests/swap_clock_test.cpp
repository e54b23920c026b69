// SPDX-License-Identifier: Apache-2.0
#include "swap_clock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace spillway::tf {
namespace {

TEST(SwapClockTest, WhoWaitsIsCalledAtItsTimeOrAtOnceIfThatIsPast) {
  SwapClock clock;
  const ClockRun run{.step = 7, .clock = 1};
  std::vector<int> called;
  EXPECT_NE(clock.wait_until(run, 3, [&] { called.push_back(3); }), 0U);
  EXPECT_NE(clock.wait_until(run, 2, [&] { called.push_back(2); }), 0U);
  EXPECT_EQ(clock.wait_until(run, 0, [&] { called.push_back(0); }), 0U);
  clock.tick(run, 1);
  EXPECT_EQ(called, std::vector<int>{0});
  clock.tick(run, 2);
  EXPECT_EQ(called, (std::vector<int>{0, 2}));
  EXPECT_EQ(clock.wait_until(run, 2, [&] { called.push_back(4); }), 0U);
  clock.tick(run, 3);
  EXPECT_EQ(called, (std::vector<int>{0, 2, 4, 3}));
  EXPECT_EQ(clock.waiting(), 0U);
}

TEST(SwapClockTest, RunsFramesAndIterationsHaveClocksOfTheirOwn) {
  SwapClock clock;
  const ClockRun run{.step = 7, .frame = 1, .iteration = 2, .clock = 3};
  int called = 0;
  clock.wait_until(run, 1, [&] { ++called; });
  clock.tick({.step = 8, .frame = 1, .iteration = 2, .clock = 3}, 5);
  clock.tick({.step = 7, .frame = 0, .iteration = 2, .clock = 3}, 5);
  clock.tick({.step = 7, .frame = 1, .iteration = 1, .clock = 3}, 5);
  clock.tick({.step = 7, .frame = 1, .iteration = 2, .clock = 4}, 5);
  EXPECT_EQ(called, 0);
  clock.tick(run, 1);
  EXPECT_EQ(called, 1);
}

TEST(SwapClockTest, AWaitThatWasTakenBackIsNeverCalled) {
  SwapClock clock;
  const ClockRun run{.step = 1};
  int called = 0;
  const SwapClock::Ticket ticket = clock.wait_until(run, 1, [&] { ++called; });
  EXPECT_TRUE(clock.cancel(ticket));
  EXPECT_FALSE(clock.cancel(ticket));
  clock.tick(run, 1);
  EXPECT_EQ(called, 0);
}

// A step that failed leaves its clock behind; who waits for an old one goes on waiting.
TEST(SwapClockTest, OldRunsGoAndWaitsStay) {
  SwapClock clock;
  int called = 0;
  clock.wait_until({.step = 1}, 2, [&] { ++called; });
  for (std::int64_t step = 2; step < 5000; ++step) clock.tick({.step = step}, 1);
  clock.tick({.step = 1}, 2);
  EXPECT_EQ(called, 1);
}

/// Numbers of steps as the framework draws them: negative, in no order.
std::vector<std::int64_t> drawn_steps(std::size_t count) {
  std::mt19937_64 generator(7);
  std::vector<std::int64_t> steps(count);
  for (std::int64_t& step : steps) step = -static_cast<std::int64_t>(generator() >> 1);
  return steps;
}

TEST(SwapClockTest, StepsOfAnyNumberWaitAfterManyOthers) {
  SwapClock clock;
  for (const std::int64_t step : drawn_steps(40000)) {
    bool called = false;
    ASSERT_NE(clock.wait_until({.step = step}, 2, [&] { called = true; }), 0U);
    clock.tick({.step = step}, 1);
    ASSERT_FALSE(called);
    clock.tick({.step = step}, 2);
    ASSERT_TRUE(called);
  }
}

// Its clock goes with those of later steps, and who comes late must not wait for ticks that were.
TEST(SwapClockTest, AStepThatGoesOnAfterManyOthersWaitsForNothing) {
  SwapClock clock;
  const std::vector<std::int64_t> steps = drawn_steps(5000);
  for (const std::int64_t step : steps) clock.tick({.step = step}, 3);
  int called = 0;
  EXPECT_EQ(clock.wait_until({.step = steps.front()}, 2, [&] { ++called; }), 0U);
  EXPECT_EQ(called, 1);
}

// A step whose loop turns often goes on after it: the ticks that were are not told again.
TEST(SwapClockTest, NobodyWaitsForARunWhoseClockHasGone) {
  SwapClock clock;
  const ClockRun outside{.step = 1};
  clock.tick(outside, 3);
  for (std::int64_t turn = 0; turn < 5000; ++turn) {
    clock.tick({.step = 1, .frame = 9, .iteration = turn}, 1);
  }
  int called = 0;
  EXPECT_EQ(clock.wait_until(outside, 2, [&] { ++called; }), 0U);
  EXPECT_EQ(called, 1);
  EXPECT_NE(clock.wait_until({.step = 2}, 1, [&] { ++called; }), 0U);
  EXPECT_EQ(called, 1);
}

TEST(SwapClockTest, TicksAndWaitsOfManyThreadsMeet) {
  SwapClock clock;
  std::atomic<int> called{0};
  constexpr int kTimes = 2000;
  const ClockRun run{.step = 1};
  std::thread waits([&] {
    for (int i = 1; i <= kTimes; ++i)
      clock.wait_until(run, static_cast<std::uint64_t>(i), [&] { ++called; });
  });
  for (int i = 1; i <= kTimes; ++i) clock.tick(run, static_cast<std::uint64_t>(i));
  waits.join();
  EXPECT_EQ(called.load(), kTimes);
}

}  // namespace
}  // namespace spillway::tf
