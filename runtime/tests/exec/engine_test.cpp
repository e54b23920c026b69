// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/engine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine_fixture.hpp"
#include "spillway/base/error.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

constexpr std::uint64_t kBytes = 1 << 20;

ResidencyState state(const FakeStorage& storage) { return storage.record->state.load(); }

TEST_F(EngineTest, MoreThanTheBudgetLivesBecauseTheRestLeaves) {
  start(kMiB * 4);
  std::vector<FakeStorage*> storages;
  for (std::uint64_t seed = 0; seed < 12; ++seed) storages.push_back(make(kBytes, seed));
  for (std::uint64_t seed = 0; seed < 12; ++seed) EXPECT_TRUE(holds(*storages[seed], seed));
  const Statistics statistics = engine_.statistics();
  EXPECT_EQ(statistics.storages, 12U);
  EXPECT_LE(statistics.peak_device, kMiB * 4);
  EXPECT_EQ(statistics.overshoot, Bytes{0});
  EXPECT_GE(statistics.moves.evictions, 8U);
  EXPECT_GE(statistics.moves.fetches, 8U);
}

TEST_F(EngineTest, NothingMovesWithoutAMode) {
  start(kMiB, Mode::kOff);
  EXPECT_FALSE(engine_.watching());
  for (std::uint64_t seed = 0; seed < 4; ++seed) make(kBytes, seed);
  EXPECT_EQ(engine_.statistics().moves.evictions, 0U);
}

TEST_F(EngineTest, ZeroBytesAreNull) {
  EXPECT_EQ(engine_.allocate(0), nullptr);
  engine_.free(nullptr);
}

TEST_F(EngineTest, InputsOfARunningOpStay) {
  start(kMiB * 3);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  FakeOp op(engine_);
  ASSERT_TRUE(op.read(*a));
  ASSERT_TRUE(op.read(*b));
  FakeStorage* c = make_storage(engine_, kBytes);
  EXPECT_THROW(engine_.allocate(kBytes), OutOfBudget);
  EXPECT_TRUE(a->holds(1) && b->holds(2));
  drop_storage(engine_, c);
}

TEST_F(EngineTest, WhatANestedOpTouchedStaysUntilTheOutermostEnds) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = nullptr;
  {
    const FakeOp outer(engine_);
    {
      FakeOp inner(engine_);
      ASSERT_TRUE(inner.read(*a));
      b = make_storage(engine_, kBytes);
    }
    EXPECT_THROW(engine_.allocate(kBytes), OutOfBudget);
  }
  EXPECT_NE(make(kBytes, 3), nullptr);
  EXPECT_NE(b, nullptr);
}

TEST_F(EngineTest, OutputsStayUntilTheNextOp) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  EXPECT_THROW(engine_.allocate(2 * kBytes), OutOfBudget) << "b may still be filled";
  EXPECT_TRUE(b->accessible.load());
  EXPECT_TRUE(b->holds(2));
  { const FakeOp op(engine_); }
  std::byte* memory = engine_.allocate(2 * kBytes);
  EXPECT_EQ(state(*a), ResidencyState::kOnDisk);
  EXPECT_EQ(state(*b), ResidencyState::kOnDisk);
  engine_.free(memory);
}

TEST_F(EngineTest, OutputsStayWhileNumbersAreRead) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  for (int i = 0; i < 3; ++i) {
    engine_.begin_frame({.name = "item", .signature = 1, .boundary = false, .between = true});
    EXPECT_TRUE(engine_.use(*a->record, Access::kRead));
    engine_.end_frame();
  }
  EXPECT_THROW(engine_.allocate(2 * kBytes), OutOfBudget) << "b may still be filled";
  EXPECT_TRUE(b->holds(2));
  { const FakeOp op(engine_); }
  engine_.free(engine_.allocate(2 * kBytes));
  EXPECT_EQ(state(*b), ResidencyState::kOnDisk);
}

TEST_F(EngineTest, TheErrorSaysWhatToDo) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeOp op(engine_);
  ASSERT_TRUE(op.read(*a));
  try {
    engine_.allocate(kBytes * 3 / 2);
    FAIL();
  } catch (const OutOfBudget& error) {
    EXPECT_EQ(error.facts().op, "fake::op");
    EXPECT_EQ(error.facts().need, Bytes{kBytes * 3 / 2});
    EXPECT_EQ(error.facts().budget, kMiB * 2);
    EXPECT_EQ(error.facts().smallest_budget, Bytes{kBytes * 5 / 2});
    ASSERT_EQ(error.facts().pinned.size(), 1U);
    EXPECT_NE(std::string(error.what()).find("SPILLWAY_BUDGET"), std::string::npos);
  }
}

TEST_F(EngineTest, AnImpossibleSizeIsAnErrorAndNoHang) {
  start(kMiB * 2);
  for (const std::size_t bytes :
       {std::size_t{1} << 45, std::size_t{1} << 62, std::numeric_limits<std::size_t>::max()}) {
    EXPECT_THROW(engine_.allocate(bytes), OutOfBudget) << bytes;
  }
  EXPECT_NE(make(kBytes, 1), nullptr);
}

TEST_F(EngineTest, OverbookingIsAllowedWhereAskedForAndCounted) {
  Settings wanted = settings(kMiB * 2);
  wanted.overbook = true;
  engine_.start(wanted);
  const FakeOp op(engine_);
  FakeStorage* a = make_storage(engine_, 3 * kBytes);
  EXPECT_EQ(engine_.statistics().overshoot, kMiB);
  drop_storage(engine_, a);
}

TEST_F(EngineTest, FreedStoragesGiveWayBeforeAnythingIsEvicted) {
  start(kMiB * 3);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  FakeStorage* c = make(kBytes, 3);
  FakeStorage* d = make(kBytes, 4);
  ASSERT_EQ(state(*a), ResidencyState::kOnDisk);
  const std::uint64_t evictions = engine_.statistics().moves.evictions;
  drop_storage(engine_, b);
  EXPECT_TRUE(holds(*a, 1));
  EXPECT_EQ(engine_.statistics().moves.evictions, evictions);
  EXPECT_TRUE(holds(*c, 3) && holds(*d, 4));
  EXPECT_EQ(framework_.released.load(), 1U);
}

TEST_F(EngineTest, KeptStoragesStayAndAreDirtyAfterwards) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  make(kBytes, 2);
  make(kBytes, 3);
  ASSERT_EQ(state(*a), ResidencyState::kOnDisk);
  ASSERT_TRUE(engine_.keep(*a->record));
  make(kBytes, 4);
  make(kBytes, 5);
  EXPECT_EQ(state(*a), ResidencyState::kResident);
  a->fill(6);  // by code that no op shows, as it may while it is kept
  engine_.release(*a->record);
  make(kBytes, 7);
  make(kBytes, 8);
  EXPECT_EQ(state(*a), ResidencyState::kOnDisk);
  EXPECT_TRUE(holds(*a, 6));
}

//   evicted, fetched: a clean copy on disk | ops go unseen: write 6 | seen again: evict, fetch
//
// Eviction without a transfer would bring the stale copy back.
TEST_F(EngineTest, NoCopyOutlivesTheTimeInWhichOpsAreNotSeen) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  FakeStorage* c = make(kBytes, 3);
  ASSERT_EQ(state(*a), ResidencyState::kOnDisk);
  EXPECT_FALSE(engine_.prepare_for_unseen_ops()) << "an unseen op could not bring it back";
  drop_storage(engine_, b);
  ASSERT_TRUE(holds(*a, 1));
  ASSERT_TRUE(a->record->has_copy.load());
  ASSERT_EQ(state(*c), ResidencyState::kResident);
  ASSERT_TRUE(engine_.prepare_for_unseen_ops());
  EXPECT_FALSE(a->record->has_copy.load());
  a->fill(6);
  make(kBytes, 4);
  make(kBytes, 5);
  ASSERT_EQ(state(*a), ResidencyState::kOnDisk);
  EXPECT_TRUE(holds(*a, 6));
}

TEST_F(EngineTest, AnotherStartKeepsWhatLiesOnDisk) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  make(kBytes, 3);
  ASSERT_EQ(state(*a), ResidencyState::kOnDisk);
  start(kMiB * 2);
  make(kBytes, 4);
  EXPECT_TRUE(holds(*a, 1));
  EXPECT_TRUE(holds(*b, 2));
}

TEST_F(EngineTest, ExemptStoragesNeverMoveAgain) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  make(kBytes, 2);
  make(kBytes, 3);
  ASSERT_TRUE(engine_.exempt(*a->record));
  EXPECT_TRUE(engine_.exempt(*a->record));
  make(kBytes, 4);
  EXPECT_EQ(state(*a), ResidencyState::kExempt);
  EXPECT_TRUE(a->holds(1));
}

TEST_F(EngineTest, ATouchedStorageIsThereUntilTheNextOp) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  make(kBytes, 2);
  make(kBytes, 3);
  ASSERT_TRUE(engine_.touch(*a->record, Access::kRead));
  EXPECT_TRUE(a->accessible.load());
  EXPECT_TRUE(a->holds(1));
}

TEST_F(EngineTest, TouchingEverythingOneAfterTheOtherFits) {
  start(kMiB * 8);
  std::vector<FakeStorage*> storages;
  for (std::uint64_t seed = 0; seed < 24; ++seed) storages.push_back(make(kBytes, seed));
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    ASSERT_TRUE(engine_.touch(*storages[seed]->record, Access::kRead)) << Engine::last_failure();
    ASSERT_TRUE(storages[seed]->holds(seed));
  }
}

TEST_F(EngineTest, FuzzEvictsAllButTheInputs) {
  start(kMiB * 16, Mode::kFuzz);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* tiny = make(64, 2);
  ASSERT_NE(tiny->record, nullptr);
  FakeOp op(engine_);
  ASSERT_TRUE(op.read(*a));
  engine_.inputs_ready();
  EXPECT_EQ(state(*a), ResidencyState::kResident);
  EXPECT_EQ(state(*tiny), ResidencyState::kOnDisk);
  EXPECT_TRUE(op.read(*tiny));
  EXPECT_TRUE(tiny->holds(2));
}

TEST_F(EngineTest, FuzzPushesOutBetweenOpsWhatNoOpMade) {
  start(kMiB * 16, Mode::kFuzz);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* made = make(kBytes, 2);
  {
    FakeOp op(engine_);
    ASSERT_TRUE(op.read(*a));
    engine_.push_out(true);  // not while an op runs
    EXPECT_EQ(state(*a), ResidencyState::kResident);
    engine_.produced(*made->record);
  }
  engine_.push_out(false);
  EXPECT_EQ(state(*a), ResidencyState::kOnDisk);
  EXPECT_EQ(state(*made), ResidencyState::kResident);
  engine_.push_out(true);
  EXPECT_EQ(state(*made), ResidencyState::kOnDisk);
}

TEST_F(EngineTest, StoppingBringsEverythingBack) {
  start(kMiB * 2);
  std::vector<FakeStorage*> storages;
  for (std::uint64_t seed = 0; seed < 6; ++seed) storages.push_back(make(kBytes, seed));
  engine_.stop();
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    EXPECT_TRUE(storages[seed]->accessible.load());
    EXPECT_TRUE(storages[seed]->holds(seed));
  }
  EXPECT_FALSE(engine_.watching());
}

TEST_F(EngineTest, StoppingWhileADeadStorageIsStillBeingCopied) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  arm_faults("spool.write=delay:100ms@1+");
  std::thread other([&] { EXPECT_NE(make(kBytes, 3), nullptr); });
  while (state(*a) != ResidencyState::kEvicting) std::this_thread::yield();
  drop_storage(engine_, a);
  engine_.stop();
  other.join();
  EXPECT_TRUE(b->holds(2));
}

TEST_F(EngineTest, StartingAgainKeepsWhatWasEvicted) {
  start(kMiB * 2);
  std::vector<FakeStorage*> storages;
  for (std::uint64_t seed = 0; seed < 6; ++seed) storages.push_back(make(kBytes, seed));
  start(kMiB * 3);
  for (std::uint64_t seed = 0; seed < 6; ++seed) EXPECT_TRUE(holds(*storages[seed], seed));
}

TEST_F(EngineTest, ALowerBudgetIsReachedAtTheNextAllocation) {
  start(kMiB * 16);
  std::vector<FakeStorage*> storages;
  for (std::uint64_t seed = 0; seed < 8; ++seed) storages.push_back(make(kBytes, seed));
  start(kMiB * 4);
  make(kBytes, 9);
  EXPECT_LE(engine_.statistics().device, kMiB * 4);
  for (std::uint64_t seed = 0; seed < 8; ++seed) EXPECT_TRUE(holds(*storages[seed], seed));
}

TEST_F(EngineTest, ADiskThatFailsForEverIsAnErrorAndNoHang) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  arm_faults("spool.write=EIO@1+");
  std::string why = "there was room";
  try {
    make(kBytes, 3);
  } catch (const OutOfBudget& error) {
    why = error.facts().why;
  }
  EXPECT_NE(why.find("writing the spool file failed"), std::string::npos) << why;
  arm_faults("");
  EXPECT_TRUE(holds(*a, 1) && holds(*b, 2));
  EXPECT_NE(make(kBytes, 3), nullptr) << "a disk that came back is used again";
  EXPECT_TRUE(holds(*a, 1) && holds(*b, 2));
}

TEST_F(EngineTest, AFailedReadIsAnErrorOfThatUseAlone) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  make(kBytes, 2);
  make(kBytes, 3);
  arm_faults("spool.read=EIO@1+");
  {
    FakeOp op(engine_);
    EXPECT_FALSE(op.read(*a));
    EXPECT_NE(Engine::last_failure().find("reading the spool file failed"), std::string::npos);
    EXPECT_FALSE(a->accessible.load());
  }
  arm_faults("");
  EXPECT_TRUE(holds(*a, 1));
}

TEST_F(EngineTest, AFullDiskIsSaid) {
  Settings wanted = settings(kMiB * 2);
  wanted.disk_budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = kMiB * 2};
  engine_.start(wanted);
  for (std::uint64_t seed = 0; seed < 4; ++seed) make(kBytes, seed);
  try {
    make(kBytes, 9);
    FAIL();
  } catch (const OutOfBudget& error) {
    EXPECT_NE(error.facts().why.find("SPILLWAY_DISK_BUDGET"), std::string::npos);
  }
}

TEST_F(EngineTest, AKernelThatRefusesIsAnErrorAndNoHang) {
  Settings wanted = settings(kMiB * 2);
  wanted.overbook = true;
  engine_.start(wanted);
  FakeStorage* a = make(kBytes, 1);
  make(kBytes, 2);
  make(kBytes, 3);
  ASSERT_EQ(state(*a), ResidencyState::kOnDisk);
  wanted.faults = "arena.map=ENOMEM@1+";
  engine_.start(wanted);
  {
    FakeOp op(engine_);
    EXPECT_FALSE(op.read(*a));
    EXPECT_NE(Engine::last_failure().find("the kernel refuses memory"), std::string::npos);
    EXPECT_EQ(Engine::last_failure().find("SPILLWAY_BUDGET"), std::string::npos)
        << "it is not the budget that is short";
  }
  try {
    make(kBytes, 4);
    FAIL();
  } catch (const OutOfBudget& error) {
    EXPECT_NE(error.facts().refusal.value().reason.find("vm.max_map_count"), std::string::npos);
  }
  arm_faults("");
  EXPECT_TRUE(holds(*a, 1));
}

TEST_F(EngineTest, ABlindEngineEvictsNothing) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  make(kBytes, 2);
  engine_.set_blind(true);
  FakeStorage* c = make(kBytes, 3);
  EXPECT_EQ(state(*a), ResidencyState::kResident);
  EXPECT_EQ(engine_.statistics().overshoot, kMiB);
  engine_.set_blind(false);
  make(kBytes, 4);
  EXPECT_TRUE(holds(*a, 1) && holds(*c, 3));
}

TEST_F(EngineTest, AWaiterGetsTheRoomOfAFrameThatEnds) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  std::atomic<bool> pinned{false};
  std::thread holder([&] {
    FakeOp op(engine_);
    EXPECT_TRUE(op.read(*a) && op.read(*b));
    pinned.store(true);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  while (!pinned.load()) std::this_thread::yield();
  // Threads without a frame that wait too must not look like frames that wait. There is room for
  // all of them once `a` has left: for what another one holds without a frame nobody waits.
  std::vector<std::thread> frameless(3);
  std::latch all_have_room(3);
  for (std::thread& thread : frameless) {
    thread = std::thread([&] {
      std::byte* const mine = engine_.allocate(kBytes / 4);
      all_have_room.arrive_and_wait();
      engine_.free(mine);
    });
  }
  for (std::thread& thread : frameless) thread.join();
  holder.join();
  EXPECT_TRUE(holds(*a, 1) && holds(*b, 2));
}

TEST_F(EngineTest, FramesThatWaitForEachOtherFailAndDoNotHang) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  std::atomic<int> ready{0};
  std::atomic<int> failed{0};
  const auto run = [&](FakeStorage* mine) {
    FakeOp op(engine_);
    EXPECT_TRUE(op.read(*mine));
    ready.fetch_add(1);
    while (ready.load() < 2) std::this_thread::yield();
    try {
      engine_.free(engine_.allocate(kBytes));
    } catch (const OutOfBudget&) {
      failed.fetch_add(1);
    }
  };
  { const FakeOp op(engine_); }
  std::thread first([&] { run(a); });
  std::thread second([&] { run(b); });
  first.join();
  second.join();
  EXPECT_GE(failed.load(), 1);
}

TEST_F(EngineTest, TheErrorTellsOfStoragesTooSmallToMove) {
  Settings wanted = settings(kMiB * 4);
  wanted.min_size = kMiB;
  engine_.start(wanted);
  for (std::uint64_t seed = 0; seed < 7; ++seed) make(kMiB.count / 2, seed);
  try {
    const FakeOp op(engine_);
    engine_.allocate(kMiB.count);
    FAIL() << "3.5 of 4 MiB are held";
  } catch (const OutOfBudget& error) {
    EXPECT_EQ(error.facts().small, Bytes{7 * kMiB.count / 2});
    const std::string text = error.what();
    EXPECT_NE(text.find("smaller than what is moved"), std::string::npos) << text;
    EXPECT_NE(text.find("too small to move hold 3.5 MiB together"), std::string::npos) << text;
  }
}

// Two threads show a storage at once; what the first has bound is in use by then.
TEST_F(EngineTest, WhoBindsSecondToTheSameObjectFreesNothingOfTheFirst) {
  start(kMiB * 4);
  FakeStorage* const first = make(kBytes, 1);
  StorageRecord& record = *first->record;
  auto* const second = new FakeStorage();
  const std::uint64_t released = framework_.released.load();
  engine_.bind(record, second, first);
  EXPECT_EQ(record.owner.load(), first);
  EXPECT_EQ(framework_.released.load(), released + 1);
  auto* const other = new FakeStorage();  // its memory moved
  engine_.bind(record, other, other);     // releases the first
  EXPECT_EQ(record.owner.load(), other);
  EXPECT_EQ(record.bound_to.load(), other);
  EXPECT_EQ(framework_.released.load(), released + 2);
}

/// Takes the engine's lock whenever it is called where that must be free, so that a test of it
/// stands still where it is not.
class LockingFramework final : public FakeFramework {
 public:
  ShortageWords shortage_words(const std::string& op) override {
    engine->statistics();
    return {.also_known_as = "In the words of fakes: none left for " + op + ".", .remedies = {}};
  }
  void release(void* owner) noexcept override {
    engine->statistics();
    FakeFramework::release(owner);
  }

  Engine* engine = nullptr;
};

class EngineWithoutItsLockTest : public EngineTest {
 public:
  ~EngineWithoutItsLockTest() override { locked_.stop(); }

 protected:
  EngineWithoutItsLockTest() : locking_(*new LockingFramework()), locked_(new_engine(locking_)) {
    locking_.engine = &locked_;
    locked_.start(settings(kMiB * 2));
  }

  LockingFramework& locking_;
  Engine& locked_;
};

TEST_F(EngineWithoutItsLockTest, AFrameworkIsAskedForWordsOfAllocations) {
  const FakeOp op(locked_);
  try {
    locked_.allocate(kBytes * 3);
    FAIL() << "it does not fit";
  } catch (const OutOfBudget& error) {
    EXPECT_NE(std::string(error.what()).find("none left for fake::op."), std::string::npos);
    EXPECT_EQ(error.facts().also_known_as, "In the words of fakes: none left for fake::op.");
  }
}

TEST_F(EngineWithoutItsLockTest, AFrameworkIsAskedForWordsOfInputs) {
  std::vector<FakeStorage*> storages;
  for (int i = 0; i < 3; ++i) {
    const FakeOp op(locked_);
    storages.push_back(make_storage(locked_, kBytes));
  }
  FakeOp op(locked_);
  EXPECT_FALSE(op.read(*storages[0]) && op.read(*storages[1]) && op.read(*storages[2]));
  EXPECT_NE(Engine::last_failure().find("none left for fake::op."), std::string::npos);
  EXPECT_FALSE(locked_.inputs_ready());
  EXPECT_NE(Engine::last_failure().find("none left for fake::op."), std::string::npos)
      << "of all that it needs";
}

TEST_F(EngineWithoutItsLockTest, AFrameworkReleasesHandles) {
  FakeStorage* storage = nullptr;
  {
    const FakeOp op(locked_);
    storage = make_storage(locked_, kBytes);
  }
  drop_storage(locked_, storage);
  locked_.reset_peak();  // notices that it died
  EXPECT_EQ(locking_.released.load(), 1U);
}

}  // namespace
}  // namespace spillway::runtime
