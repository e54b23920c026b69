// SPDX-License-Identifier: Apache-2.0
// A fork beside threads that have copies to start. Nothing is measured in time: the tests wait for
// what is counted, and the forking thread keeps its fork open until they have looked.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "engine_fixture.hpp"
#include "spillway/runtime/exec/engine.hpp"
#include "spillway/runtime/exec/fork_gate.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

constexpr std::uint64_t kBytes = 1 << 20;
constexpr auto kAtMost = std::chrono::seconds(20);

ResidencyState state(const FakeStorage& storage) { return storage.record->state.load(); }

bool comes(const std::function<bool()>& event) {
  const auto end = std::chrono::steady_clock::now() + kAtMost;
  while (!event()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

class ForkGateTest : public EngineTest {
 protected:
  /// Its fork begins when no copy is in flight, and is over when the test lets it.
  void begin_fork() {
    forking_ = std::thread([this] {
      engine_.before_fork();
      in_fork_.store(true);
      comes([this] { return let_it_end_.load(); });
      engine_.after_fork_in_parent();
    });
    ASSERT_TRUE(comes([this] { return gate().closed(); }));
  }
  void end_fork() {
    let_it_end_.store(true);
    forking_.join();
  }
  const ForkGate& gate() { return engine_.fork_gate(); }

  std::atomic<bool> in_fork_{false};

 private:
  std::thread forking_;
  std::atomic<bool> let_it_end_{false};
};

// busy       an op needs room: waits --------------------------------- b leaves
// forking    closes, waits for a's copy ------ it ends: forks -- opens
TEST_F(ForkGateTest, NoCopyBeginsWhileAForkWaitsForThoseInFlight) {
  Settings early = settings(kMiB * 3);
  early.start_at = 0.5;
  engine_.start(early);
  arm_faults("spool.write=delay:300ms@1");
  FakeStorage* const a = make(kBytes, 1);
  FakeStorage* const b = make(kBytes, 2);
  { const FakeOp lets_go_of_b(engine_); }
  ASSERT_NE(state(*a), ResidencyState::kResident);
  begin_fork();
  FakeStorage* c = nullptr;
  std::thread busy([&] { c = make(kBytes, 3); });
  EXPECT_TRUE(
      comes([&] { return gate().waiting() == 1 || state(*b) != ResidencyState::kResident; }));
  EXPECT_EQ(gate().waiting(), 1U);
  EXPECT_TRUE(comes([this] { return in_fork_.load(); }));
  EXPECT_EQ(state(*a), ResidencyState::kOnDisk);
  EXPECT_EQ(state(*b), ResidencyState::kResident);
  end_fork();
  busy.join();
  EXPECT_NE(state(*b), ResidencyState::kResident) << "b was to leave";
  EXPECT_TRUE(holds(*a, 1) && holds(*b, 2) && holds(*c, 3));
}

TEST(ForkGateAloneTest, OpensWhenEachForkIsOver) {
  ForkGate gate;
  gate.pass();
  gate.close();
  gate.close();
  std::atomic<bool> passed{false};
  std::thread thread([&] {
    gate.pass();
    passed.store(true);
  });
  EXPECT_TRUE(comes([&] { return gate.waiting() == 1; }));
  gate.open();
  EXPECT_TRUE(gate.closed());
  EXPECT_FALSE(passed.load());
  gate.open();
  thread.join();
  EXPECT_TRUE(passed.load());
  EXPECT_EQ(gate.waiting(), 0U);
}

TEST(ForkGateAloneTest, IsOpenInTheChild) {
  ForkGate gate;
  gate.close();
  gate.open_in_child();
  gate.pass();
  EXPECT_FALSE(gate.closed());
}

}  // namespace
}  // namespace spillway::runtime
