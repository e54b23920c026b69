// SPDX-License-Identifier: Apache-2.0
// The engine over a device tier that has neither pages nor mappings: it asks a tier for nothing
// else than its interface.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine_fixture.hpp"
#include "plain_tier.hpp"

namespace spillway::runtime {
namespace {

constexpr Bytes kBudget = kMiB * 4;
constexpr std::uint64_t kStorage = 512 << 10;
constexpr std::size_t kCount = 32;  // four times the budget

/// Kept reachable, see new_engine.
Engine& new_engine_over(std::unique_ptr<DeviceTier> tier, Framework& framework) {
  static auto* const engines = new std::vector<Engine*>();
  return *engines->emplace_back(new Engine(framework, std::move(tier)));
}

class EngineTierTest : public ::testing::TestWithParam<Mode> {
 public:
  ~EngineTierTest() override {
    engine_.stop();
    renew_this_thread_frames();
  }

 protected:
  FakeStorage* make(std::uint64_t seed) {
    const FakeOp op(engine_);
    FakeStorage* const storage = make_storage(engine_, kStorage);
    storage->fill(seed);
    return storage;
  }
  bool holds(const FakeStorage& storage, std::uint64_t seed) {
    FakeOp op(engine_);
    return op.read(storage) && engine_.inputs_ready() && storage.holds(seed);
  }

  FakeFramework& framework_ = *new FakeFramework();
  Engine& engine_ = new_engine_over(std::make_unique<PlainTier>(kBudget), framework_);
};

TEST_P(EngineTierTest, WhatDoesNotFitLeavesAndComesBackWithItsBytes) {
  Settings settings;
  settings.mode = GetParam();
  settings.budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = kBudget};
  settings.disk_budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = kGiB};
  settings.spool_dir = ::testing::TempDir();
  engine_.start(settings);
  std::vector<FakeStorage*> storages;
  for (std::size_t i = 0; i < kCount; ++i) storages.push_back(make(i));
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < kCount; ++i) EXPECT_TRUE(holds(*storages[i], i)) << i;
  }
  const Statistics statistics = engine_.statistics();
  EXPECT_EQ(statistics.pages, "heap");
  EXPECT_LE(statistics.peak_device, kBudget);
  EXPECT_EQ(statistics.overshoot, Bytes{0});
  EXPECT_GE(statistics.moves.fetches, 2 * (kCount - 8)) << "the budget holds eight";
  EXPECT_EQ(statistics.moves.recalls, 0U) << "nothing comes back without a copy";
  for (FakeStorage* storage : storages) drop_storage(engine_, storage);
  EXPECT_EQ(engine_.statistics().device, Bytes{0});
}

INSTANTIATE_TEST_SUITE_P(Modes, EngineTierTest,
                         ::testing::Values(Mode::kEnforce, Mode::kVerify, Mode::kFuzz));

}  // namespace
}  // namespace spillway::runtime
