// SPDX-License-Identifier: Apache-2.0
// Stopping beside threads that go on.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "engine_fixture.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

constexpr std::uint64_t kBytes = 1 << 20;

class EngineStopTest : public EngineTest {
 protected:
  /// Makes storages, uses them in turn and drops them, until told to end. What went wrong.
  std::string work(const std::atomic<bool>& ends, std::uint64_t seed) {
    try {
      while (!ends.load()) {
        std::vector<FakeStorage*> mine;
        for (std::uint64_t i = 0; i < 4; ++i) mine.push_back(make(kBytes, seed + i));
        for (std::uint64_t i = 0; i < 4; ++i) {
          if (!holds(*mine[i], seed + i)) return "lost: " + Engine::last_failure();
        }
        for (FakeStorage* storage : mine) drop_storage(engine_, storage);
      }
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
};

// A thread may be about to begin an op that ends a step when another one stops the engine.
TEST_F(EngineStopTest, NoBudgetFollowsTheMachineAnyMore) {
  Settings wanted = settings(kMiB);
  wanted.budget = BudgetSpec{.kind = BudgetSpec::Kind::kAuto};
  engine_.start(wanted);
  engine_.stop();
  const Bytes none = engine_.budget();
  { const FakeOp op(engine_, 0, true); }
  EXPECT_EQ(engine_.budget(), none);
}

//   stop     requests a, waits .................. goes on
//   others            drop a, drain what was dropped
TEST_F(EngineStopTest, AStorageMayDieWhileItIsBroughtBack) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  FakeStorage* c = make(kBytes, 3);
  FakeStorage* d = make(kBytes, 4);
  ASSERT_EQ(a->record->state.load(), ResidencyState::kOnDisk);
  ASSERT_EQ(b->record->state.load(), ResidencyState::kOnDisk);
  arm_faults("spool.read=delay:300ms@1+");
  std::thread stopping([&] { EXPECT_NO_THROW(engine_.stop()); });
  while (a->record->state.load() != ResidencyState::kFetching) std::this_thread::yield();
  drop_storage(engine_, a);
  engine_.free(engine_.allocate(kBytes));  // notices that it died
  stopping.join();
  arm_faults("");
  EXPECT_TRUE(b->accessible.load() && b->holds(2));
  EXPECT_TRUE(c->holds(3) && d->holds(4));
}

TEST_F(EngineStopTest, ADeadDiskKeepsNobody) {
  start(kMiB * 2);
  std::vector<FakeStorage*> storages;
  for (std::uint64_t i = 0; i < 5; ++i) storages.push_back(make(kBytes, i));
  arm_faults("spool.read=EIO@1+");
  EXPECT_NO_THROW(engine_.stop());
  arm_faults("");
  EXPECT_FALSE(storages[0]->accessible.load());
  EXPECT_TRUE(storages[4]->holds(4));
  EXPECT_TRUE(holds(*storages[0], 0));  // an op may still ask for it
}

//   A   |-- op, pins all --------------------------------|
//   B         asks for room, waits for A   gets it
//   C                               stops
TEST_F(EngineStopTest, WhoWaitsForRoomGetsIt) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  FakeOp op(engine_);
  ASSERT_TRUE(op.read(*a) && op.read(*b));
  std::thread waiting([&] { EXPECT_NO_THROW(engine_.free(engine_.allocate(kBytes))); });
  while (!engine_.waits_for_ops()) std::this_thread::yield();
  engine_.stop();
  waiting.join();
}

TEST_F(EngineStopTest, ThreadsNoticeNothingOfStartingAndStopping) {
  constexpr std::uint64_t kThreads = 3;
  std::atomic<bool> ends{false};
  std::vector<std::string> failures(kThreads);
  std::vector<std::thread> threads;
  start(kMiB * 8);
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { failures[i] = work(ends, i * 100); });
  }
  for (int i = 0; i < 200; ++i) {
    start(kMiB * 8);
    const std::uint64_t until = engine_.ops() + 20;
    while (engine_.ops() < until && failures[0].empty()) std::this_thread::yield();
    EXPECT_NO_THROW(engine_.stop());
  }
  ends.store(true);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

}  // namespace
}  // namespace spillway::runtime
