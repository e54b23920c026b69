// SPDX-License-Identifier: Apache-2.0
// Threads that need room while others' ops are open which wait for them.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine_fixture.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

constexpr std::uint64_t kBytes = 1 << 20;
// No thread is believed to get on: as if half a minute had passed.
constexpr const char* kOutOfPatience = "wait.patience=EIO@1+";

class EngineWaitTest : public EngineTest {
 protected:
  /// Returns the text of a refused request; empty: it was met.
  std::string refusal_of(std::uint64_t bytes) {
    try {
      engine_.free(engine_.allocate(bytes));
    } catch (const OutOfBudget& error) {
      return error.what();
    }
    return "";
  }
  void start_impatient(Bytes budget, bool overbook = false) {
    Settings wanted = settings(budget);
    wanted.overbook = overbook;
    wanted.faults = kOutOfPatience;
    engine_.start(wanted);
  }
};

//   op     |-- pins a -- starts helper -- joins it .......... --|
//   helper                    needs a's room: the op must end first
TEST_F(EngineWaitTest, AHelperOfARunningOpGetsAnErrorThatNamesIt) {
  start_impatient(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  FakeOp op(engine_);
  ASSERT_TRUE(op.read(*a) && op.read(*b));
  std::string said;
  std::thread([&] { said = refusal_of(kBytes); }).join();
  EXPECT_NE(said.find("need 1 MiB"), std::string::npos) << said;
  EXPECT_NE(said.find("for fake::op on other threads"), std::string::npos) << said;
  EXPECT_TRUE(a->holds(1) && b->holds(2));
}

TEST_F(EngineWaitTest, AHelperOverbooksWhereThatIsAllowed) {
  start_impatient(kMiB * 2, true);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  FakeOp op(engine_);
  ASSERT_TRUE(op.read(*a) && op.read(*b));
  std::string said;
  std::thread([&] { said = refusal_of(kBytes); }).join();
  EXPECT_EQ(said, "");
  EXPECT_EQ(engine_.statistics().overshoot, kMiB);
}

// A storage that must come back needs room too.
TEST_F(EngineWaitTest, AHelperThatUsesWhatHasLeftGetsTheErrorToo) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  FakeStorage* c = make(kBytes, 3);
  FakeOp op(engine_);
  ASSERT_TRUE(op.read(*b) && op.read(*c));
  ASSERT_EQ(a->record->state.load(), ResidencyState::kOnDisk);
  arm_faults(kOutOfPatience);
  bool used = true;
  std::string said;
  std::thread([&] {
    FakeOp inner(engine_);
    used = inner.read(*a);
    said = Engine::last_failure();
  }).join();
  EXPECT_FALSE(used);
  EXPECT_NE(said.find("for fake::op on other threads"), std::string::npos) << said;
  arm_faults("");
}

// A request that no end of another thread's op can make fit is refused at once, without the fault.
TEST_F(EngineWaitTest, WhatCannotFitWaitsForNobody) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeOp op(engine_);
  ASSERT_TRUE(op.read(*a));
  std::string said;
  std::thread([&] { said = refusal_of(kBytes * 3); }).join();
  EXPECT_NE(said.find("short"), std::string::npos);
  std::thread([&] {
    FakeOp inner(engine_);
    ASSERT_TRUE(inner.read(*a));
    said = refusal_of(kBytes * 3 / 2);  // beside its own input
  }).join();
  EXPECT_NE(said.find("short"), std::string::npos);
  EXPECT_EQ(said.find("It waited"), std::string::npos) << said;
}

// Whom somebody waited for in vain nobody waits for again, until it ends; then again.
TEST_F(EngineWaitTest, PatienceIsLostOnceForEachOp) {
  Settings wanted = settings(kMiB * 2);
  wanted.faults = "wait.patience=EIO@1";  // the first time alone
  engine_.start(wanted);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  {
    FakeOp op(engine_);
    ASSERT_TRUE(op.read(*a) && op.read(*b));
    for (int i = 0; i < 3; ++i) std::thread([&] { EXPECT_NE(refusal_of(kBytes), ""); }).join();
  }
  std::promise<void> pinned;
  std::atomic<bool> may_end{false};
  std::thread holder([&] {
    FakeOp op(engine_);
    EXPECT_TRUE(op.read(*a) && op.read(*b));
    pinned.set_value();
    while (!may_end.load()) std::this_thread::yield();
  });
  pinned.get_future().wait();
  std::thread waiter([&] { EXPECT_EQ(refusal_of(kBytes), ""); });
  may_end.store(true);
  waiter.join();
  holder.join();
}

thread_local bool t_holds = false;  // the framework's lock

// The framework's lock is let go of while others' ops may need it to end.
//
//   waiter   takes the lock, needs room, waits: lets go of it ..... takes it again
//   op       pins all there is ...... takes the lock, lets go of it, ends
class LockingFramework : public FakeFramework {
 public:
  void* let_others_run() override {
    if (!t_holds) return nullptr;
    t_holds = false;
    lock_.unlock();
    return this;
  }
  void run_again(void* held) override {
    EXPECT_EQ(held, this);
    lock_.lock();
    t_holds = true;
  }
  void take() {
    lock_.lock();
    t_holds = true;
  }
  void let_go() {
    t_holds = false;
    lock_.unlock();
  }
  [[nodiscard]] static bool holds() { return t_holds; }

 private:
  std::mutex lock_;
};

TEST_F(EngineWaitTest, TheFrameworksLockIsFreeWhileAThreadWaits) {
  auto& framework = *new LockingFramework();
  Engine& engine = new_engine(framework);
  engine.start(settings(kMiB * 2));
  FakeStorage* a = nullptr;
  FakeStorage* b = nullptr;
  {
    const FakeOp op(engine);
    a = make_storage(engine, kBytes);
    b = make_storage(engine, kBytes);
  }
  { const FakeOp lets_go_of_both(engine); }
  std::promise<void> pinned;
  std::thread holder([&] {
    FakeOp op(engine);
    EXPECT_TRUE(op.read(*a) && op.read(*b));
    pinned.set_value();
    while (!engine.waits_for_ops()) std::this_thread::yield();
    framework.take();
    framework.let_go();
  });
  pinned.get_future().wait();
  framework.take();
  std::byte* const mine = engine.allocate(kBytes);
  EXPECT_NE(mine, nullptr);
  EXPECT_TRUE(LockingFramework::holds());
  framework.let_go();
  engine.free(mine);
  holder.join();
  engine.stop();
}

// Workers of a parallel loop have no frame of their own; their op has.
TEST_F(EngineWaitTest, WorkersOfAnOpGetAnErrorEach) {
  start_impatient(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  FakeOp op(engine_);
  ASSERT_TRUE(op.read(*a) && op.read(*b));
  std::atomic<int> refused{0};
  std::vector<std::thread> workers;
  workers.reserve(4);
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&] { refused.fetch_add(refusal_of(kBytes).empty() ? 0 : 1); });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(refused.load(), 4);
}

// A thread that ends inside a frame, as one that is cancelled, is waited for by nobody.
TEST_F(EngineWaitTest, AThreadThatIsGoneIsNotWaitedFor) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  std::thread([&] {
    engine_.begin_frame({.name = "fake::lost", .signature = 1, .boundary = false});
    EXPECT_TRUE(engine_.use(*a->record, Access::kRead));
  }).join();
  FakeOp op(engine_);
  ASSERT_TRUE(op.read(*b));
  EXPECT_EQ(refusal_of(kBytes), "");
  EXPECT_NE(refusal_of(kBytes * 3 / 2), "");
}

TEST_F(EngineWaitTest, ASilentDiskIsWaitedForAndToldOf) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  make(kBytes, 2);
  arm_faults("wait.silence=EIO@1, spool.write=delay:20ms@1");
  ::testing::internal::CaptureStderr();
  make(kBytes, 3);
  const std::string said = ::testing::internal::GetCapturedStderr();
  arm_faults("");
  EXPECT_NE(said.find("the disk of the spool has moved nothing for 30 s"), std::string::npos)
      << said;
  EXPECT_TRUE(holds(*a, 1));
}

}  // namespace
}  // namespace spillway::runtime
