// SPDX-License-Identifier: Apache-2.0
#include "standstill.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace spillway::tf {
namespace {

class StandstillTest : public testing::Test {
 protected:
  TimeNs now_ = 0;
  Standstill standstill_{[this] { return now_; }};
};

//   time    0    10   25   40   70   100
//   works   ─────┐    ┌────┐         ┌──
//   copy    ┌────────────────────────┐
//   stands       ├────┤    ├─────────┤
TEST_F(StandstillTest, CountsWhatNoThreadFills) {
  standstill_.begin_work();
  auto copy = standstill_.copy_under_way();
  now_ = 10;
  standstill_.end_work();
  EXPECT_EQ(standstill_.total(), 0);
  now_ = 25;
  EXPECT_EQ(standstill_.total(), 15) << "with what lasts";
  standstill_.begin_work();
  now_ = 40;
  EXPECT_EQ(standstill_.total(), 15);
  standstill_.end_work();
  now_ = 70;
  EXPECT_EQ(standstill_.total(), 45);
  now_ = 100;
  copy.reset();
  standstill_.begin_work();
  standstill_.end_work();
  now_ = 1000;
  EXPECT_EQ(standstill_.total(), 75) << "nobody works, and for no copy";
}

TEST_F(StandstillTest, OneWorkerOrOneCopyOfSeveralIsEnough) {
  standstill_.begin_work();
  standstill_.begin_work();
  auto first = standstill_.copy_under_way();
  auto second = standstill_.copy_under_way();
  standstill_.end_work();
  now_ = 10;
  EXPECT_EQ(standstill_.total(), 0);
  standstill_.end_work();
  now_ = 20;
  first.reset();
  now_ = 30;
  EXPECT_EQ(standstill_.total(), 20);
  second.reset();
  now_ = 40;
  EXPECT_EQ(standstill_.total(), 20);
}

TEST_F(StandstillTest, ACopyLastsAsLongAsItsLastOwner) {
  auto copy = standstill_.copy_under_way();
  const auto same = std::make_unique<std::shared_ptr<void>>(copy);
  copy.reset();
  now_ = 7;
  EXPECT_EQ(standstill_.total(), 7);
  same->reset();
  now_ = 9;
  EXPECT_EQ(standstill_.total(), 7);
}

// Whatever the order of the threads, nothing stands when somebody works or no copy is left.
TEST(StandstillStressTest, EndsRightUnderManyThreads) {
  std::atomic<TimeNs> now{0};
  Standstill standstill([&now] { return now.load(); });
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&standstill, &now, worker] {
      for (int i = 0; i < 20000; ++i) {
        if (worker % 2 == 0) {
          standstill.begin_work();
          standstill.end_work();
        } else {
          const auto copy = standstill.copy_under_way();
          now.fetch_add(1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const TimeNs total = standstill.total();
  now.fetch_add(100);
  EXPECT_EQ(standstill.total(), total) << "no copy is under way";
  EXPECT_LE(total, 40000);
  standstill.begin_work();
  const auto copy = standstill.copy_under_way();
  now.fetch_add(100);
  EXPECT_EQ(standstill.total(), total) << "somebody works";
  standstill.end_work();
  now.fetch_add(5);
  EXPECT_EQ(standstill.total(), total + 5);
}

}  // namespace
}  // namespace spillway::tf
