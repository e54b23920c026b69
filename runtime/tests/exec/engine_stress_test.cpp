// SPDX-License-Identifier: Apache-2.0
// Many threads run ops on the same storages under a budget of a third of what is live. Every word
// of every input is checked at every use: a storage that left under an op, came back too late or
// was overlapped shows as a wrong word, or as a fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "engine_fixture.hpp"

namespace spillway::runtime {
namespace {

constexpr std::size_t kThreads = 8;
constexpr std::size_t kSlots = 48;
constexpr std::uint64_t kOpsPerThread = 150;
constexpr std::uint64_t kGranule = 16 << 10;

struct Slot {
  std::shared_mutex mutex;  // what a framework leaves to its user: no write beside other uses
  FakeStorage* storage = nullptr;
  std::uint64_t seed = 0;
};

class Stress {
 public:
  Stress(Engine& engine, std::uint64_t seed) : engine_(engine), seed_(seed) {}

  /// Returns the bytes that are live at first.
  Bytes populate() {
    std::mt19937_64 random(seed_);
    Bytes live{};
    for (Slot& slot : slots_) {
      replace(slot, random);
      live += {slot.storage->bytes};
    }
    return live;
  }
  /// Before each of its turns, the first thread calls `between` with the turn's number.
  void run(const std::function<void(std::uint64_t)>& between = [](std::uint64_t) {}) {
    std::vector<std::thread> threads;
    for (std::uint64_t number = 0; number < kThreads; ++number) {
      threads.emplace_back([this, number, &between] {
        std::mt19937_64 random(seed_ * 1'000 + number);
        for (std::uint64_t i = 0; i < kOpsPerThread; ++i) {
          if (number == 0) between(i);
          one_turn(random);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  /// Ends the life of all storages, the contents of which must still be right.
  void finish() {
    for (Slot& slot : slots_) {
      if (slot.storage == nullptr) continue;
      {
        FakeOp op(engine_);
        check(op.read(*slot.storage) && slot.storage->holds(slot.seed));
      }
      drop_storage(engine_, slot.storage);
    }
  }

  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> refused{0};  // the frames of all threads together did not fit
  std::atomic<std::uint64_t> checked{0};

 private:
  void check(bool right) {
    checked.fetch_add(1);
    if (!right) wrong.fetch_add(1);
  }

  void one_turn(std::mt19937_64& random) {
    const std::uint64_t kind = random() % 100;
    Slot& slot = slots_[random() % kSlots];
    if (kind < 12) {
      const std::lock_guard lock(slot.mutex);
      replace(slot, random);
    } else if (kind < 40) {
      write(slot, random);
    } else if (kind < 45) {
      touch(slot);
    } else {
      read_two(slot, slots_[random() % kSlots]);
    }
  }

  // A storage dies and another takes its place, perhaps its record and its memory.
  void replace(Slot& slot, std::mt19937_64& random) {
    if (slot.storage != nullptr) drop_storage(engine_, slot.storage);
    slot.storage = nullptr;
    slot.seed = random();
    const FakeOp op(engine_);
    try {
      slot.storage = make_storage(engine_, kGranule * (4 + random() % 20));
      slot.storage->fill(slot.seed);
      // Some are written through pointers: their copies on disk never count.
      if (random() % 8 == 0) slot.storage->record->always_dirty.store(true);
    } catch (const OutOfBudget&) {
      refused.fetch_add(1);
    }
  }

  void write(Slot& slot, std::mt19937_64& random) {
    const std::lock_guard lock(slot.mutex);
    if (slot.storage == nullptr) return;
    FakeOp op(engine_);
    if (!op.write(*slot.storage)) {
      refused.fetch_add(1);
      return;
    }
    engine_.inputs_ready();
    check(slot.storage->accessible.load() && slot.storage->holds(slot.seed));
    slot.seed = random();
    slot.storage->fill(slot.seed);
    engine_.produced(*slot.storage->record);
  }

  // Two inputs, and workspace within the op.
  void read_two(Slot& first, Slot& second) {
    std::shared_lock lock(std::min(&first, &second)->mutex);
    std::shared_lock<std::shared_mutex> other;
    if (&first != &second) other = std::shared_lock(std::max(&first, &second)->mutex);
    FakeOp op(engine_);
    for (const Slot* slot : {&first, &second}) {
      // As adapters do, which look at the size before they show a storage.
      if (slot->storage == nullptr || Bytes{slot->storage->bytes} < engine_.min_size()) continue;
      if (!op.read(*slot->storage)) {
        refused.fetch_add(1);
        return;
      }
    }
    engine_.inputs_ready();
    std::byte* scratch = nullptr;
    try {
      scratch = engine_.allocate(kGranule * 4);
      scratch[0] = std::byte{1};
    } catch (const OutOfBudget&) {
      refused.fetch_add(1);
    }
    for (const Slot* slot : {&first, &second}) {
      if (slot->storage != nullptr) check(slot->storage->holds(slot->seed));
    }
    engine_.free(scratch);
  }

  // Framework code reads between ops.
  void touch(Slot& slot) {
    const std::lock_guard lock(slot.mutex);
    if (slot.storage == nullptr) return;
    if (engine_.touch(*slot.storage->record, Access::kRead)) {
      check(slot.storage->holds(slot.seed));
    } else {
      refused.fetch_add(1);
    }
  }

  Engine& engine_;
  std::uint64_t seed_;
  std::array<Slot, kSlots> slots_;
};

class EngineStressTest : public EngineTest {
 protected:
  void stress(Settings settings, std::uint64_t seed) {
    SCOPED_TRACE(seed);
    auto stress = std::make_unique<Stress>(engine_, seed);
    engine_.start(settings);
    engine_.set_blind(true);  // the first allocations set the scale
    const Bytes live = stress->populate();
    engine_.set_blind(false);
    settings.budget->bytes = {live.count / 3};
    if (settings.emulate_device) settings.emulate_device = settings.budget->bytes;
    engine_.start(settings);
    {
      const FakeOp op(engine_);
      engine_.free(engine_.allocate(kGranule * 8));  // reaches the budget
    }
    engine_.reset_peak();
    stress->run();
    const Statistics statistics = engine_.statistics();
    EXPECT_LE(statistics.peak_device, settings.budget->bytes);
    EXPECT_EQ(statistics.overshoot, Bytes{0});
    EXPECT_GT(statistics.moves.evictions, kThreads);
    stress->finish();
    EXPECT_EQ(stress->wrong.load(), 0U);
    EXPECT_EQ(engine_.statistics().storages, 0U);
    EXPECT_EQ(engine_.statistics().disk, Bytes{0});
    EXPECT_EQ(engine_.statistics().host, Bytes{0});
    std::cout << "seed " << seed << ": " << stress->checked.load() << " checks, "
              << stress->refused.load() << " refused, " << statistics.moves.evictions
              << " evictions, " << statistics.moves.fetches << " fetches\n";
    EXPECT_LT(stress->refused.load(), stress->checked.load() / 4) << "mostly refused tests little";
  }
};

TEST_F(EngineStressTest, ContentsSurviveManyThreads) { stress(settings(kGiB), 1); }

TEST_F(EngineStressTest, ContentsSurviveASecondSchedule) { stress(settings(kGiB), 20'260'117); }

TEST_F(EngineStressTest, ContentsSurviveFuzz) {
  Settings fuzz = settings(kGiB);
  fuzz.mode = Mode::kFuzz;
  stress(fuzz, 3);
}

TEST_F(EngineStressTest, ContentsSurviveVerify) {
  Settings verify = settings(kGiB);
  verify.mode = Mode::kVerify;
  stress(verify, 4);
  EXPECT_EQ(engine_.statistics().moves.undeclared_writes, 0U);
}

TEST_F(EngineStressTest, ContentsSurviveAHostTier) {
  Settings emulated = settings(kGiB);
  emulated.emulate_device = kGiB;
  emulated.host_budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = kMiB * 2};
  stress(emulated, 5);
}

TEST_F(EngineStressTest, ContentsSurviveAFlakyDisk) {
  Settings flaky = settings(kGiB);
  flaky.faults =
      "spool.write=EIO@40, spool.write=short@55, spool.write=EIO@80, spool.write=ENOSPC@120, "
      "spool.read=short@20, spool.read=EIO@33, spool.read=delay:3ms@60, spool.grow=ENOSPC@2";
  stress(flaky, 6);
}

// A program may call enable() again while other threads of it run ops, which read without the lock:
//
//     first thread    op   start(record, a trace, a status page)   op   start(allow)   op
//     the others      begin_frame   use   inputs_ready   end_frame   begin_frame   use ...
//
// That they read what is being written only the thread sanitizer sees.
TEST_F(EngineStressTest, ContentsSurviveOtherSettings) {
  const StatusMapping status = StatusMapping::create();
  auto stress = std::make_unique<Stress>(engine_, 7);
  Settings enforce = settings(kGiB);
  engine_.start(enforce);
  enforce.budget->bytes = {stress->populate().count / 3};
  Settings allow = enforce;
  allow.overbook = true;
  allow.status_path = status.path();
  Settings record = allow;
  record.mode = Mode::kRecord;
  record.trace_path = "kept in memory";
  engine_.start(enforce);
  const std::array<Settings, 3> stated{enforce, allow, record};
  constexpr std::uint64_t kTurnsOfEach = 10;
  stress->run([&](std::uint64_t turn) {
    const std::uint64_t number = turn / kTurnsOfEach;
    if (turn % kTurnsOfEach == 0) engine_.start(stated[number % stated.size()]);
  });
  EXPECT_EQ(stress->wrong.load(), 0U);
  EXPECT_GT(engine_.statistics().moves.evictions, kThreads);
  engine_.start(enforce);
  stress->finish();
  EXPECT_EQ(stress->wrong.load(), 0U);
  EXPECT_EQ(engine_.statistics().storages, 0U);
  EXPECT_TRUE(engine_.trace().has_value());
}

}  // namespace
}  // namespace spillway::runtime
