// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/fair_mutex.hpp"

#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <thread>
#include <vector>

namespace spillway::runtime {
namespace {

TEST(FairMutexTest, WhoLocksAgainAtOnceComesAfterThoseWhoWait) {
  FairMutex mutex;
  std::vector<int> order;
  mutex.lock();
  std::thread other([&] {
    const std::lock_guard lock(mutex);
    order.push_back(1);
  });
  while (mutex.interested() != 2) std::this_thread::yield();
  mutex.unlock();
  {
    const std::lock_guard lock(mutex);
    order.push_back(2);
  }
  other.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(mutex.interested(), 0U);
}

TEST(FairMutexTest, LetsOneInAtATime) {
  FairMutex mutex;
  int inside = 0;
  int count = 0;
  const auto work = [&] {
    for (int i = 0; i < 2'000; ++i) {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(++inside, 1);
      ++count;
      --inside;
    }
  };
  std::array threads{std::thread(work), std::thread(work), std::thread(work)};
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 6'000);
}

}  // namespace
}  // namespace spillway::runtime
