// SPDX-License-Identifier: Apache-2.0
// The engine in a process that forks (DataLoader workers above all).
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "access_probe.hpp"
#include "engine_fixture.hpp"
#include "spillway/runtime/exec/engine.hpp"
#include "spillway/runtime/memory/page_pool.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

constexpr std::uint64_t kBytes = 1 << 20;

ResidencyState state(const FakeStorage& storage) { return storage.record->state.load(); }

using EngineForkTest = EngineTest;

/// Forks in the engine's eyes too. Returns as fork() does.
pid_t fork_with(Engine& engine) {
  engine.before_fork();
  const pid_t child = ::fork();
  if (child == 0) {
    engine.after_fork_in_child();
  } else {
    engine.after_fork_in_parent();
  }
  return child;
}

int exit_code_of_child(Engine& engine, const std::function<bool()>& body) {
  const pid_t child = fork_with(engine);
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(EngineForkTest, AChildReadsWhatWasEvictedAndTheParentGoesOn) {
  start(kMiB * 2);
  std::vector<FakeStorage*> storages;
  for (std::uint64_t seed = 0; seed < 6; ++seed) storages.push_back(make(kBytes, seed));
  EXPECT_EQ(exit_code_of_child(engine_,
                               [&] {
                                 for (std::uint64_t seed = 0; seed < 6; ++seed) {
                                   if (!holds(*storages[seed], seed)) return false;
                                 }
                                 std::byte* memory = engine_.allocate(kBytes * 64);
                                 engine_.free(memory);
                                 drop_storage(engine_, storages[0]);
                                 return engine_.statistics().storages == 6;
                               }),
            0);
  for (std::uint64_t seed = 0; seed < 6; ++seed) EXPECT_TRUE(holds(*storages[seed], seed));
}

// Another thread of the child looks at the addresses all the while.
TEST_F(EngineForkTest, AChildSeesNothingOfWhatItReadsBeforeAllOfItIsThere) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer lets no forked child start a thread";
#endif
  if (!PagePool::kernel_moves_pages()) GTEST_SKIP() << "pages are not moved on this machine";
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  for (std::uint64_t seed = 2; seed < 6; ++seed) make(kBytes, seed);
  ASSERT_EQ(state(*a), ResidencyState::kOnDisk);
  EXPECT_EQ(exit_code_of_child(engine_,
                               [&] {
                                 arm_faults("spool.read=delay:200ms@1");
                                 std::thread op([&] { holds(*a, 1); });
                                 AccessProbe probe;
                                 bool seen = false;
                                 bool right = true;
                                 while (state(*a) == ResidencyState::kOnDisk) {
                                   right = right && (!probe.readable(a->pointer) || a->holds(1));
                                   seen = true;
                                 }
                                 op.join();
                                 return seen && right && a->holds(1);
                               }),
            0);
}

TEST_F(EngineForkTest, AChildRunsWholeSteps) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  make(kBytes, 2);
  make(kBytes, 3);
  ASSERT_EQ(state(*a), ResidencyState::kOnDisk);
  EXPECT_EQ(
      exit_code_of_child(
          engine_,
          [&] {
            const std::uint64_t steps = engine_.steps();
            for (std::uint64_t op = 0; op < 400; ++op) {
              engine_.begin_frame({.name = "op", .signature = op % 4, .boundary = op % 4 == 0});
              const bool there = engine_.use(*a->record, Access::kRead) && a->holds(1);
              engine_.end_frame();
              if (!there) return false;
            }
            return engine_.steps() == steps;
          }),
      0);
}

TEST_F(EngineForkTest, AChildMayExportKeepAndStop) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  make(kBytes, 3);
  make(kBytes, 4);
  ASSERT_EQ(state(*a), ResidencyState::kOnDisk);
  ASSERT_EQ(state(*b), ResidencyState::kOnDisk);
  EXPECT_EQ(exit_code_of_child(
                engine_,
                [&] {
                  const bool there = engine_.exempt(*a->record) && engine_.keep(*b->record);
                  engine_.stop();
                  return there && a->holds(1) && b->holds(2) && engine_.exempt(*a->record);
                }),
            0);
}

/// A child that holds so much of its own memory until this object is gone.
class ChildThatHolds {
 public:
  ChildThatHolds(Engine& engine, std::uint64_t bytes) {
    std::array<int, 2> ready{};
    std::array<int, 2> go{};
    if (::pipe(ready.data()) != 0 || ::pipe(go.data()) != 0) return;
    pid_ = fork_with(engine);
    char byte = 0;
    if (pid_ == 0) {
      ::close(go[1]);
      engine.allocate(bytes);
      if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
      ::_exit(static_cast<int>(::read(go[0], &byte, 1)));
    }
    holds_ = ::read(ready[0], &byte, 1) == 1;
    for (const int descriptor : {ready[0], ready[1], go[0]}) ::close(descriptor);
    go_ = go[1];
  }
  ~ChildThatHolds() {
    ::close(go_);
    ::waitpid(pid_, nullptr, 0);
  }
  ChildThatHolds(const ChildThatHolds&) = delete;
  ChildThatHolds& operator=(const ChildThatHolds&) = delete;

  [[nodiscard]] bool holds() const { return holds_; }

 private:
  pid_t pid_ = -1;
  int go_ = -1;
  bool holds_ = false;
};

TEST_F(EngineForkTest, AnOpThatRanBeforeRunsWhateverChildrenClaim) {
  start(kMiB * 8);
  FakeStorage* a = make(kBytes * 3, 1);
  const auto run = [&](bool boundary) {
    engine_.begin_frame({.name = "op", .signature = 1, .boundary = boundary, .key = 7});
    const bool there = engine_.use(*a->record, Access::kRead) && engine_.inputs_ready();
    if (there) engine_.free(engine_.allocate(kBytes * 3));
    engine_.end_frame();
    return there;
  };
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(run(true));
  const ChildThatHolds child(engine_, kBytes * 6);
  ASSERT_TRUE(child.holds());
  EXPECT_TRUE(run(true)) << Engine::last_failure();
}

}  // namespace
}  // namespace spillway::runtime
