// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/processor_clock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace spillway {
namespace {

void work_for(TimeNs time) {
  const TimeNs begin = thread_processor_time();
  while (thread_processor_time() - begin < time) {
  }
}

TEST(ProcessorClockTest, CountsTheWorkOfAllThreadsOrOfOne) {
  constexpr TimeNs kWork = 5'000'000;
  const TimeNs mine = thread_processor_time();
  const TimeNs all = processor_time();
  std::thread([] { work_for(kWork); }).join();
  EXPECT_GE(processor_time() - all, kWork);
  EXPECT_LT(thread_processor_time() - mine, kWork);
  work_for(kWork);
  EXPECT_GE(thread_processor_time() - mine, kWork);
}

TEST(ProcessorClockTest, StandsStillWhileNothingIsDone) {
  constexpr TimeNs kPause = 50'000'000;
  const TimeNs begin = processor_time();
  std::this_thread::sleep_for(std::chrono::nanoseconds(kPause));
  EXPECT_LT(processor_time() - begin, kPause);
}

}  // namespace
}  // namespace spillway
