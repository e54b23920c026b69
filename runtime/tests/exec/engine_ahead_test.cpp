// SPDX-License-Identifier: Apache-2.0
// The engine's movements along the recorded step, taken back when the program leaves it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "engine_fixture.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

constexpr std::uint64_t kBytes = 64 << 10;
constexpr std::size_t kMany = 48;  // far more than are under way at once
constexpr std::size_t kStarted = 8;
constexpr std::uint64_t kOps = 80;
constexpr std::uint64_t kUsesFirst = 4;  // these ops write one half of the storages each
constexpr std::uint64_t kUsesSecond = 44;
constexpr Bytes kBudget{9 << 19};  // of 6 MiB: one half fits, both do not
constexpr std::uint64_t kElsewhere = 7;

/// A step of 80 ops, two of which use much. Between them one half has to leave and the other to
/// come.
class EngineAheadTest : public EngineTest {
 protected:
  EngineAheadTest() {
    Settings wanted = settings(kBudget);
    wanted.io = IoMethod::kThreads;
    engine_.start(wanted);
    for (std::size_t i = 0; i < kMany; ++i) first_.push_back(make(kBytes, i));
    for (std::size_t i = 0; i < kMany; ++i) second_.push_back(make(kBytes, kMany + i));
  }

  void run_op(std::uint64_t signature, const std::vector<FakeStorage*>& written = {}) {
    {
      FakeOp op(engine_, signature, signature == 1'000);
      for (const FakeStorage* storage : written) ASSERT_TRUE(op.write(*storage));
      ASSERT_TRUE(engine_.inputs_ready());
      engine_.free(engine_.allocate(100'000));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // looking ahead takes 5 % at most
  }
  void run_ops(std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      static const std::vector<FakeStorage*> none;
      run_op(1'000 + i, i == kUsesFirst ? first_ : i == kUsesSecond ? second_ : none);
    }
  }
  void learn() {
    for (int i = 0; i < 5; ++i) run_ops(0, kOps);
  }
  /// Runs steps until, between the two large ops of one, many of these are on their way, which the
  /// faults keep slow. Looking ahead is limited in time: on a busy machine some steps go without.
  bool many_are(ResidencyState wanted, const std::vector<FakeStorage*>& storages,
                const char* faults) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      run_ops(0, kUsesFirst + 1);
      arm_faults(faults);
      for (std::uint64_t i = kUsesFirst + 1; i < kUsesSecond; ++i) {
        run_ops(i, i + 1);
        if (count(storages, wanted) > kStarted) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      arm_faults("");
      run_ops(kUsesSecond, kOps);
    }
    return false;
  }
  static std::size_t count(const std::vector<FakeStorage*>& storages, ResidencyState wanted) {
    return static_cast<std::size_t>(std::ranges::count_if(
        storages,
        [&](const FakeStorage* storage) { return storage->record->state.load() == wanted; }));
  }
  void expect_all_intact() {
    arm_faults("");
    for (std::size_t i = 0; i < kMany; ++i) {
      EXPECT_TRUE(holds(*first_[i], i));
      EXPECT_TRUE(holds(*second_[i], kMany + i));
    }
  }

  // A departure leaves no more on their way than have started; the others are where they were.
  void expect_taken_back(const std::vector<FakeStorage*>& storages, ResidencyState moving,
                         ResidencyState before, const char* delay) {
    learn();
    ASSERT_TRUE(many_are(moving, storages, delay));
    const std::size_t under_way = count(storages, moving);
    const std::size_t unmoved = count(storages, before);
    run_op(kElsewhere);
    EXPECT_LE(count(storages, moving), kStarted);
    EXPECT_GE(count(storages, before), unmoved + under_way - kStarted);
    expect_all_intact();
  }

  std::vector<FakeStorage*> first_;
  std::vector<FakeStorage*> second_;
};

TEST_F(EngineAheadTest, ADepartureTakesBackWhatWasToLeave) {
  expect_taken_back(first_, ResidencyState::kEvicting, ResidencyState::kResident,
                    "spool.write=delay:300ms@1+");
}

TEST_F(EngineAheadTest, ADepartureTakesBackWhatWasToCome) {
  expect_taken_back(second_, ResidencyState::kFetching, ResidencyState::kOnDisk,
                    "spool.read=delay:300ms@1+");
}

// Each use writes, so what leaves without a copy had come back for a use that it did not see.
TEST_F(EngineAheadTest, WhatCameBackAheadOfItsUseStays) {
  learn();
  const Bytes before = engine_.statistics().moves.clean_evicted;
  learn();
  EXPECT_LE(engine_.statistics().moves.clean_evicted - before, Bytes{kMany * kBytes})
      << "some may, for an op that is short of room";
}

// As the optimizer's state while the program evaluates: it is away, and there is room for the rest.
TEST_F(EngineAheadTest, WhatTheStepDoesNotUseDoesNotPushOutWhatItUses) {
  learn();
  const auto evaluate = [&] {
    for (std::uint64_t i = 0; i < kOps; ++i) {
      static const std::vector<FakeStorage*> none;
      run_op(2'000 + i, i == kUsesFirst ? first_ : none);
    }
  };
  for (int i = 0; i < 12; ++i) evaluate();  // without a boundary a loop is believed late
  const auto moved = [&] {
    const MoveStatistics moves = engine_.statistics().moves;
    return moves.evicted + moves.clean_evicted;
  };
  const Bytes before = moved();
  for (int i = 0; i < 3; ++i) evaluate();
  EXPECT_LE(moved() - before, Bytes{kMany / 4 * 3 * kBytes}) << "of four times as much";
}

// Others are, in its place.
TEST_F(EngineAheadTest, WhatNeverLeavesIsNotChosen) {
  constexpr std::size_t kKept = 4;
  for (std::size_t i = 0; i < kKept; ++i) ASSERT_TRUE(engine_.keep(*first_[i]->record));
  learn();
  run_ops(0, kUsesFirst + 1);
  for (std::size_t i = 0; i < kKept; ++i) EXPECT_FALSE(first_[i]->record->leaves.load()) << i;
  for (std::size_t i = 0; i < kKept; ++i) engine_.release(*first_[i]->record);
  expect_all_intact();
}

// A thread that saves a checkpoint or loads data runs ops of no step at all.
TEST_F(EngineAheadTest, OpsOfAnotherThreadAreNoDeparture) {
  learn();
  ASSERT_TRUE(many_are(ResidencyState::kFetching, second_, "spool.read=delay:300ms@1+"));
  const std::size_t away = count(second_, ResidencyState::kOnDisk);
  std::thread([this] { run_op(kElsewhere); }).join();
  EXPECT_LE(count(second_, ResidencyState::kOnDisk), away) << "nothing was taken back";
  expect_all_intact();
}

// A thread that waits for room that a departure takes back must look for other room.
TEST_F(EngineAheadTest, AThreadThatWaitsForRoomIsServedAfterADeparture) {
  learn();
  ASSERT_TRUE(many_are(ResidencyState::kEvicting, first_, "spool.write=delay:50ms@1+"));
  std::thread other([this] {
    const FakeOp op(engine_, kElsewhere + 1);
    engine_.free(engine_.allocate(3 << 20));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  run_op(kElsewhere);
  other.join();
  expect_all_intact();
}

//   this thread            | looks ahead: there is a budget, and storages have to leave
//   the one that stops     |    no budget any more; all storages are brought back
//   this thread            | has the lock: none may leave
TEST_F(EngineAheadTest, NothingLeavesWhenTheEngineStopsBeforeALookTakesItsLock) {
  std::atomic<bool> looking{false};
  std::thread program([&] {
    learn();
    ASSERT_TRUE(many_are(ResidencyState::kEvicting, first_, "spool.write=delay:1ms@1+"));
    arm_faults("engine.look_ahead=delay:100ms@1+");
    looking.store(true);
    for (std::uint64_t i = 0; engine_.mode() != Mode::kOff && i < kOps; ++i) {
      run_op(1'000 + (kUsesFirst + 2 + i) % kOps);
    }
  });
  while (!looking.load()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // less than a look takes
  engine_.stop();
  program.join();
  EXPECT_EQ(count(first_, ResidencyState::kResident), kMany);
  EXPECT_EQ(count(second_, ResidencyState::kResident), kMany);
}

/// Each storage that leaves holds up who asks for it, as a card's driver does.
class SlowFramework : public FakeFramework {
 public:
  bool may_evict(void* owner, const StorageRecord& record) noexcept override {
    if (looking) ++left_ahead;
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(4));
    return FakeFramework::may_evict(owner, record);
  }

  std::atomic<bool> slow{false};
  std::atomic<bool> looking{false};
  std::atomic<int> left_ahead{0};
};

class SlowMovesTest : public ::testing::Test {
 public:
  ~SlowMovesTest() override {
    engine_.stop();
    renew_this_thread_frames();
  }

 protected:
  SlowMovesTest() {
    Settings settings;
    settings.budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = kBudget};
    settings.disk_budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = kGiB};
    settings.spool_dir = ::testing::TempDir();
    engine_.start(settings);
    for (std::size_t i = 0; i < 2 * kMany; ++i) {
      const FakeOp op(engine_);
      storages_.push_back(make_storage(engine_, kBytes));
    }
  }
  /// As the step of EngineAheadTest. Returns how many left before they were in the way.
  int run_step() {
    framework_.left_ahead = 0;
    for (std::uint64_t i = 0; i < kOps; ++i) {
      {
        FakeOp op(engine_, 1'000 + i, i == 0);
        if (i == kUsesFirst) write_half(op, 0);
        if (i == kUsesSecond) write_half(op, kMany);
        framework_.looking = true;
        EXPECT_TRUE(engine_.inputs_ready());
        framework_.looking = false;
        engine_.free(engine_.allocate(100'000));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return framework_.left_ahead;
  }
  void write_half(FakeOp& op, std::size_t first) {
    for (std::size_t i = first; i < first + kMany; ++i) EXPECT_TRUE(op.write(*storages_[i]));
  }

  SlowFramework& framework_ = *new SlowFramework();  // lives as long as the engine
  Engine& engine_ = new_engine(framework_);
  std::vector<FakeStorage*> storages_;
};

// The pause after a look is twenty times as long as the look: with what it moves it would be
// several steps.
TEST_F(SlowMovesTest, WhatALookMovesDoesNotPutOffTheNext) {
  for (int i = 0; i < 5; ++i) run_step();
  framework_.slow = true;
  int steps_with_a_look = 0;
  for (int i = 0; i < 12; ++i) steps_with_a_look += run_step() != 0 ? 1 : 0;
  EXPECT_GE(steps_with_a_look, 8) << "on a busy machine some steps go without";
}

/// A step that uses two thirds of the budget all along, and as much again in its last op.
class EngineStartAtTest : public EngineTest {
 protected:
  void start(double start_at) {
    Settings wanted = settings(kBudget);
    wanted.start_at = start_at;
    engine_.start(wanted);
    for (std::size_t i = 0; i < kMany; ++i) storages_.push_back(make(kBytes, i));
  }
  /// Whether in one of so many steps storages had left before its last op needed their room.
  bool some_leave_ahead(int steps) {
    bool some = false;
    for (int step = 0; step < steps && !some; ++step) {
      for (std::uint64_t i = 0; i < kOps; ++i) {
        some = some || (i + 1 == kOps && gone() != 0);
        run_op(i);
      }
    }
    return some;
  }

 private:
  /// Those on their way out are not: when they are in use again meanwhile, they stay.
  std::size_t gone() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        storages_, [](const FakeStorage* storage) { return !storage->accessible.load(); }));
  }
  void run_op(std::uint64_t i) {
    {
      FakeOp op(engine_, 5'000 + i, i == 0);
      if (i == 0) {
        for (const FakeStorage* storage : storages_) ASSERT_TRUE(op.write(*storage));
      }
      ASSERT_TRUE(engine_.inputs_ready());
      engine_.free(engine_.allocate(i + 1 == kOps ? kBytes * kMany : 100'000));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // looking ahead takes 5 % at most
  }

  std::vector<FakeStorage*> storages_;
};

TEST_F(EngineStartAtTest, NothingLeavesAheadOfNeedBelowTheShareStated) {
  start(0.9);
  EXPECT_FALSE(some_leave_ahead(12));
}

TEST_F(EngineStartAtTest, AtTheWholeBudgetStoragesLeaveAheadOfNeed) {
  start(1.0);
  EXPECT_TRUE(some_leave_ahead(100)) << "on a busy machine most steps go without looking ahead";
}

}  // namespace
}  // namespace spillway::runtime
