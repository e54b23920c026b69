// SPDX-License-Identifier: Apache-2.0
// The engine's promises over every set of tiers that it may find below the device: one suite.
//
//   | backend            | device            | below it                           |
//   |--------------------|-------------------|------------------------------------|
//   | Memory             | the machine's RAM | disk                               |
//   | MemoryPlainMeans   | the machine's RAM | disk, moved by threads             |
//   | Emulated           | a part of RAM     | host memory with room for all      |
//   | EmulatedScarceHost | a part of RAM     | host memory for little, then disk  |
//   | EmulatedScarceDisk | a part of RAM     | host memory, and a disk for little |
//
// Accelerators become further lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine_fixture.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

constexpr Bytes kDevice = kMiB * 4;
constexpr std::uint64_t kStorage = 512 << 10;  // bytes of most storages

BudgetSpec bytes(Bytes amount) { return {.kind = BudgetSpec::Kind::kBytes, .bytes = amount}; }

struct Backend {
  const char* name;
  std::function<void(Settings&)> settle;
  Bytes host{};  ///< most that its host tier may hold
};

void emulate(Settings& settings, Bytes host) {
  settings.emulate_device = kDevice;
  settings.host_budget = bytes(host);
}

const std::vector<Backend>& backends() {
  static const auto* const all = new std::vector<Backend>{
      {.name = "Memory", .settle = [](Settings&) {}},
      {.name = "MemoryPlainMeans", .settle = [](Settings& s) { s.io = IoMethod::kThreads; }},
      {.name = "Emulated", .settle = [](Settings& s) { emulate(s, kGiB); }, .host = kGiB},
      {.name = "EmulatedScarceHost",
       .settle = [](Settings& s) { emulate(s, kMiB * 2); },
       .host = kMiB * 2},
      {.name = "EmulatedScarceDisk",
       .settle =
           [](Settings& s) {
             emulate(s, kGiB);
             s.disk_budget = bytes(kMiB);
           },
       .host = kGiB},
  };
  return *all;
}

class BackendConformanceTest : public EngineTest,
                               public ::testing::WithParamInterface<std::size_t> {
 protected:
  void begin(Mode mode = Mode::kEnforce) {
    Settings wanted = settings(kDevice);
    wanted.mode = mode;
    backend().settle(wanted);
    engine_.start(wanted);
  }
  [[nodiscard]] static const Backend& backend() { return backends()[GetParam()]; }

  void fill(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) storages_.push_back(make(kStorage, storages_.size()));
  }
  void expect_all_intact() {
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      EXPECT_TRUE(holds(*storages_[i], i)) << i << ": " << Engine::last_failure();
    }
  }
  void expect_limits_kept() {
    const Statistics statistics = engine_.statistics();
    EXPECT_LE(statistics.peak_device, kDevice);
    EXPECT_EQ(statistics.overshoot, Bytes{0});
    EXPECT_LE(statistics.host, backend().host);
  }
  void drop_all() {
    for (FakeStorage* storage : storages_) drop_storage(engine_, storage);
    storages_.clear();
  }

  std::vector<FakeStorage*> storages_;
};

TEST_P(BackendConformanceTest, WhatDoesNotFitComesBackWithItsBytes) {
  begin();
  fill(32);  // four times the device
  expect_limits_kept();
  const Statistics filled = engine_.statistics();
  EXPECT_GE(filled.host + filled.disk, kMiB * 12);
  for (int round = 0; round < 3; ++round) expect_all_intact();
  expect_limits_kept();
  EXPECT_GE(engine_.statistics().moves.fetches, 3 * (32 - 8U)) << "the device holds eight";
  drop_all();
}

TEST_P(BackendConformanceTest, EveryTierIsGivenBackWhatDied) {
  begin();
  for (int round = 0; round < 4; ++round) {
    fill(24);
    drop_all();
    const Statistics statistics = engine_.statistics();
    EXPECT_EQ(statistics.storages, 0U);
    EXPECT_EQ(statistics.host, Bytes{0});
    EXPECT_EQ(statistics.disk, Bytes{0});
    EXPECT_LE(statistics.device, kDevice);
  }
  EXPECT_EQ(framework_.released.load(), 4 * 24U);
}

TEST_P(BackendConformanceTest, AccessIsRefusedFromLeavingUntilReturning) {
  begin();
  fill(32);
  std::size_t away = 0;
  for (const FakeStorage* storage : storages_) {
    const bool resident = storage->record->state.load() == ResidencyState::kResident;
    if (storage->accessible.load()) continue;
    EXPECT_FALSE(resident);
    ++away;
  }
  EXPECT_GE(away, 24U);
  EXPECT_NE(framework_.last_reason().find("not in memory"), std::string::npos)
      << framework_.last_reason();
  for (FakeStorage* storage : storages_) {
    FakeOp op(engine_);
    EXPECT_TRUE(op.read(*storage));
    EXPECT_TRUE(storage->accessible.load());
  }
  drop_all();
}

TEST_P(BackendConformanceTest, AddressesAreKept) {
  begin();
  fill(32);
  for (const FakeStorage* storage : storages_) {
    EXPECT_EQ(engine_.find(storage->pointer), storage->record);
  }
  expect_all_intact();
  drop_all();
}

TEST_P(BackendConformanceTest, WhatAnOpWroteIsWhatReturns) {
  begin();
  fill(24);
  std::mt19937_64 random(5);
  std::vector<std::uint64_t> seeds(storages_.size());
  for (std::size_t i = 0; i < seeds.size(); ++i) seeds[i] = i;
  for (int turn = 0; turn < 300; ++turn) {
    const std::size_t from = random() % storages_.size();
    const std::size_t to = random() % storages_.size();
    FakeOp op(engine_, random());
    ASSERT_TRUE(op.read(*storages_[from])) << Engine::last_failure();
    EXPECT_TRUE(storages_[from]->holds(seeds[from]));
    ASSERT_TRUE(op.write(*storages_[to])) << Engine::last_failure();
    seeds[to] = random();
    storages_[to]->fill(seeds[to]);
  }
  for (std::size_t i = 0; i < seeds.size(); ++i) EXPECT_TRUE(holds(*storages_[i], seeds[i])) << i;
  expect_limits_kept();
  drop_all();
}

TEST_P(BackendConformanceTest, WhatIsExportedOrKeptStays) {
  begin();
  fill(2);
  storages_[0]->exported.store(true);
  EXPECT_TRUE(engine_.keep(*storages_[1]->record));
  fill(30);
  EXPECT_TRUE(storages_[0]->accessible.load() && storages_[0]->holds(0));
  EXPECT_TRUE(storages_[1]->accessible.load() && storages_[1]->holds(1));
  storages_[0]->exported.store(false);
  engine_.release(*storages_[1]->record);
  expect_limits_kept();
  expect_all_intact();
  drop_all();
}

TEST_P(BackendConformanceTest, AnOpThatNeedsMoreIsRefusedAndNothingIsLost) {
  begin();
  fill(16);
  {
    const FakeOp op(engine_);
    try {
      engine_.allocate((kDevice + kMiB).count);
      FAIL() << "more than the device";
    } catch (const OutOfBudget& error) {
      EXPECT_EQ(error.facts().need, kDevice + kMiB);
      EXPECT_EQ(error.facts().budget, kDevice);
      EXPECT_GT(error.facts().smallest_budget, kDevice);
    }
  }
  expect_limits_kept();
  expect_all_intact();
  drop_all();
}

TEST_P(BackendConformanceTest, StoppingBringsEverythingBack) {
  begin();
  fill(32);
  engine_.stop();
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    EXPECT_TRUE(storages_[i]->accessible.load() && storages_[i]->holds(i)) << i;
  }
  const Statistics statistics = engine_.statistics();
  EXPECT_EQ(statistics.host, Bytes{0});
  EXPECT_EQ(statistics.disk, Bytes{0});
  drop_all();
}

TEST_P(BackendConformanceTest, FuzzEvictsWhatNoOpUsesAndLosesNothing) {
  begin(Mode::kFuzz);
  fill(6);  // all would fit
  for (std::size_t turn = 0; turn < 18; ++turn) {
    const std::size_t used = turn % storages_.size();
    FakeOp op(engine_);
    ASSERT_TRUE(op.read(*storages_[used])) << Engine::last_failure();
    EXPECT_TRUE(engine_.inputs_ready());
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      EXPECT_EQ(storages_[i]->accessible.load(), i == used) << turn << ": " << i;
    }
    EXPECT_TRUE(storages_[used]->holds(used));
  }
  EXPECT_GE(engine_.statistics().moves.fetches, 18 - 1U) << "the first may still be there";
  drop_all();
}

// Above a host tier of 2 MiB what is in the middle has to wait twice: first the smallest makes
// room, which the last takes, and then the last has to go on to the disk.
TEST_P(BackendConformanceTest, FuzzEvictsWhateverTheSizes) {
  begin(Mode::kFuzz);
  for (const std::uint64_t kibibytes : {512U, 1792U, 1536U}) {
    storages_.push_back(make(kibibytes << 10, storages_.size()));
  }
  {
    FakeOp op(engine_);
    ASSERT_TRUE(op.read(*storages_[1]) && op.read(*storages_[2])) << Engine::last_failure();
    EXPECT_TRUE(engine_.inputs_ready());
  }
  {
    const FakeOp op(engine_);
    EXPECT_TRUE(engine_.inputs_ready());
    for (const FakeStorage* storage : storages_) EXPECT_FALSE(storage->accessible.load());
  }
  expect_all_intact();
  drop_all();
}

std::vector<std::size_t> indexes() {
  std::vector<std::size_t> all(backends().size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendConformanceTest, ::testing::ValuesIn(indexes()),
                         [](const ::testing::TestParamInfo<std::size_t>& tested) {
                           return std::string(backends()[tested.param].name);
                         });

}  // namespace
}  // namespace spillway::runtime
