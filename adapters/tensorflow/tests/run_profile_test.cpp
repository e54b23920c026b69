// SPDX-License-Identifier: Apache-2.0
#include "run_profile.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace spillway::tf {
namespace {

class RunProfilerTest : public ::testing::Test {
 protected:
  RunProfilerTest() { profiler_.watch(std::vector<std::string>{"make", "use"}); }

  void op(std::int64_t step, std::string_view node, const std::function<void()>& body = {}) {
    const bool begun = profiler_.begin_op({.step = step, .node = node, .type = "Mul"}, now_ += 10);
    if (body) body();
    if (begun) profiler_.end_op({}, now_ += 10);
  }
  void allocate(int place, Bytes bytes) {
    live_ += bytes;
    profiler_.allocated(&memory_[static_cast<std::size_t>(place)], bytes, live_);
  }
  void free(int place, Bytes bytes) {
    live_ -= bytes;
    profiler_.freed(&memory_[static_cast<std::size_t>(place)]);
  }

  // A tensor of hole 5 is made, swapped out, comes back and is used.
  void run(std::int64_t step, Bytes bytes = kMiB) {
    op(step, "make", [&] {
      allocate(0, bytes);
      profiler_.came(5, {memory_.data(), bytes});
    });
    op(step, "between", [&] { free(0, bytes); });
    op(step, "more", [&] {
      allocate(2, kMiB * 3);
      free(2, kMiB * 3);
    });
    allocate(1, bytes);
    profiler_.came_back(5, {&memory_[1], bytes});
    op(step, "use");
    free(1, bytes);
  }

  std::array<std::byte, 8> memory_{};
  Bytes live_{};
  TimeNs now_ = 0;
  RunProfiler profiler_;
};

TEST_F(RunProfilerTest, NothingIsMeasuredUnlessItIsStarted) {
  run(1);
  run(2);
  EXPECT_FALSE(profiler_.watches());
  EXPECT_FALSE(profiler_.take());
}

// The first run that it sees may be half over.
TEST_F(RunProfilerTest, TheNextWholeRunIsMeasuredOnce) {
  run(1);
  profiler_.start(5, 1);
  run(2, kMiB * 7);
  EXPECT_FALSE(profiler_.take());
  run(3);
  EXPECT_FALSE(profiler_.take()) << "it may go on";
  run(4, kMiB * 9);
  const auto profile = profiler_.take();
  ASSERT_TRUE(profile);
  ASSERT_EQ(profile->ops.size(), 4U);
  EXPECT_EQ(profile->ops[1].node, "between");
  EXPECT_EQ(profile->ops[1].duration_ns, 10);
  EXPECT_EQ(profile->ops[2].peak, kMiB * 3);
  EXPECT_EQ(profile->peak(), kMiB * 3);
  ASSERT_EQ(profile->stays.size(), 2U);
  EXPECT_EQ(profile->stays[0].from, 0U);
  EXPECT_EQ(profile->stays[0].to, 1U);
  EXPECT_FALSE(profile->stays[0].back);
  EXPECT_EQ(profile->stays[1].from, 2U);
  EXPECT_EQ(profile->stays[1].to, 3U);
  EXPECT_TRUE(profile->stays[1].back);
  EXPECT_FALSE(profiler_.take());
  EXPECT_FALSE(profiler_.watches());
}

// An op puts its result where its input was, of which it is the last user; the tensor that stayed
// in its hole is handed on at the same place.
TEST_F(RunProfilerTest, ATensorMadeInTheMemoryOfAnotherStaysThereAfterIt) {
  profiler_.start(5, 2);
  for (std::int64_t step = 1; step < 4; ++step) {
    op(step, "make", [&] {
      allocate(0, kMiB);
      profiler_.came(5, {memory_.data(), kMiB});
    });
    op(step, "between");
    profiler_.came_back(5, {memory_.data(), kMiB});
    op(step, "use", [&] { profiler_.came(6, {memory_.data(), kMiB}); });
    op(step, "more");
    profiler_.came_back(6, {memory_.data(), kMiB});
    op(step, "end");
    free(0, kMiB);
  }
  const auto profile = profiler_.take();
  ASSERT_TRUE(profile);
  ASSERT_EQ(profile->stays.size(), 2U);
  EXPECT_EQ(profile->stays[0].hole, 5U);
  EXPECT_EQ(profile->stays[1].hole, 6U);
  EXPECT_EQ(profile->stays[1].from, 2U);
  // Until the memory is free; whoever reads this knows the last user of each.
  EXPECT_EQ(profile->stays[0].to, 4U);
  EXPECT_EQ(profile->stays[1].to, 4U);
  EXPECT_EQ(profile->duration_ns, 90) << "five ops of ten and four pauses of ten";
}

// Such are the outputs of `Unpack`. The memory is free once all of them have left.
TEST_F(RunProfilerTest, ViewsOfATensorStayUntilItsMemoryIsFree) {
  profiler_.start(5, 2);
  for (std::int64_t step = 1; step < 4; ++step) {
    op(step, "make", [&] {
      allocate(0, Bytes{4});
      profiler_.came(5, {memory_.data(), Bytes{2}});
      profiler_.came(6, {&memory_[2], Bytes{2}});
    });
    op(step, "between", [&] { free(0, Bytes{4}); });
    op(step, "more");
    allocate(4, Bytes{2});
    profiler_.came_back(6, {&memory_[4], Bytes{2}});
    op(step, "use");
    free(4, Bytes{2});
  }
  const auto profile = profiler_.take();
  ASSERT_TRUE(profile);
  ASSERT_EQ(profile->stays.size(), 3U);
  EXPECT_EQ(profile->stays[0].to, 1U);
  EXPECT_EQ(profile->stays[1].hole, 6U);
  EXPECT_EQ(profile->stays[1].to, 1U);
  EXPECT_EQ(profile->stays[2].hole, 6U);
  EXPECT_TRUE(profile->stays[2].back);
}

TEST_F(RunProfilerTest, ATensorThatIsMadeAgainWhereAnotherIsIsSeen) {
  profiler_.start(5, 2);
  for (std::int64_t step = 1; step < 4; ++step) {
    op(step, "make", [&] {
      allocate(0, kMiB);
      profiler_.came(5, {memory_.data(), kMiB});
    });
    op(step, "use", [&] { profiler_.made_again(6, {memory_.data(), kMiB}); });
    free(0, kMiB);
  }
  const auto profile = profiler_.take();
  ASSERT_TRUE(profile);
  ASSERT_EQ(profile->stays.size(), 2U);
  EXPECT_EQ(profile->stays[1].hole, 6U);
  EXPECT_TRUE(profile->stays[1].back);
}

// What it is slowed by now is what the plan is to change.
TEST_F(RunProfilerTest, TheTimeInWhichAnOpWaitsForMemoryIsNotItsOwn) {
  profiler_.start(5, 1);
  for (std::int64_t step = 1; step < 4; ++step) {
    op(step, "make", [&] {
      allocate(0, kMiB);
      profiler_.came(5, {memory_.data(), kMiB});
      profiler_.begins_to_wait(now_ += 10);
      profiler_.has_waited(now_ += 500);
    });
    free(0, kMiB);
    op(step, "use");
  }
  const auto profile = profiler_.take();
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->ops[0].duration_ns, 20);
  EXPECT_EQ(profile->ops[1].duration_ns, 10);
  EXPECT_EQ(profile->duration_ns, 540);
}

TEST_F(RunProfilerTest, AWaitOutsideOfOpsIsPassedOver) {
  profiler_.start(5, 1);
  for (std::int64_t step = 1; step < 4; ++step) {
    run(step);
    profiler_.begins_to_wait(now_ += 10);
    profiler_.has_waited(now_ += 10);
    op(step, "after");
  }
  run(4);
  const auto profile = profiler_.take();
  ASSERT_TRUE(profile);
  ASSERT_EQ(profile->ops.size(), 5U);
  EXPECT_EQ(profile->ops[4].duration_ns, 10);
}

// Of the ops that run when a process forks the child has none.
TEST_F(RunProfilerTest, AForkedChildMeasuresAnew) {
  profiler_.start(5, 1);
  run(1);
  op(2, "make", [&] {
    allocate(0, kMiB * 7);
    profiler_.came(5, {memory_.data(), kMiB * 7});
  });
  op(2, "between", [&] {
    profiler_.before_fork();
    profiler_.after_fork(/*in_child=*/true);
  });
  free(0, kMiB * 7);
  for (std::int64_t step = 3; step < 6; ++step) run(step);
  const auto profile = profiler_.take();
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->stays.front().bytes, kMiB) << "not the run that was under way";
}

// As where a graph does not run any more, and another is measured instead: an op of it asks for
// that.
TEST_F(RunProfilerTest, AnOpDuringWhichAnotherMeasurementBeginsIsInNone) {
  profiler_.start(5, 1);
  run(1);
  op(2, "make");
  op(2, "between", [&] { profiler_.start(5, 1); });
  for (std::int64_t step = 3; step < 6; ++step) run(step);
  const auto profile = profiler_.take();
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->ops.size(), 4U);
}

TEST_F(RunProfilerTest, RunsOfOtherGraphsArePassedOver) {
  profiler_.start(6, 2);
  for (std::int64_t step = 1; step < 9; ++step) run(step);
  EXPECT_FALSE(profiler_.take());
  profiler_.start(5, 1);
  for (std::int64_t step = 9; step < 12; ++step) run(step);
  EXPECT_TRUE(profiler_.take());
}

}  // namespace
}  // namespace spillway::tf
