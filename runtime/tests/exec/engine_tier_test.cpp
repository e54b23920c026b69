// SPDX-License-Identifier: Apache-2.0
// The engine over a device tier that has neither pages nor mappings: it asks a tier for nothing
// else than its interface.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "engine_fixture.hpp"
#include "plain_tier.hpp"

namespace spillway::runtime {
namespace {

constexpr Bytes kBudget = kMiB * 4;
constexpr std::uint64_t kStorage = 512 << 10;
constexpr std::size_t kCount = 32;  // four times the budget

Settings within_budget(Mode mode) {
  Settings settings;
  settings.mode = mode;
  settings.budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = kBudget};
  settings.disk_budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = kGiB};
  settings.spool_dir = ::testing::TempDir();
  return settings;
}

/// Kept reachable, see new_engine.
Engine& new_engine_over(std::unique_ptr<DeviceTier> tier, Framework& framework) {
  static auto* const engines = new std::vector<Engine*>();
  return *engines->emplace_back(new Engine(framework, std::move(tier)));
}

class OverPlainTier : public ::testing::Test {
 public:
  ~OverPlainTier() override {
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
  PlainTier* tier_ = new PlainTier(kBudget);  // the engine's
  Engine& engine_ = new_engine_over(std::unique_ptr<DeviceTier>(tier_), framework_);
};

class EngineTierTest : public OverPlainTier, public ::testing::WithParamInterface<Mode> {};

TEST_P(EngineTierTest, WhatDoesNotFitLeavesAndComesBackWithItsBytes) {
  engine_.start(within_budget(GetParam()));
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

/// A step of 80 ops that use more than the budget holds. One of them allocates.
class ExpectedAllocationsTest : public OverPlainTier {
 public:
  ExpectedAllocationsTest() {
    engine_.start(within_budget(Mode::kEnforce));
    for (std::size_t i = 0; i < kCount; ++i) storages_.push_back(make(i));
  }
  ~ExpectedAllocationsTest() override {
    for (FakeStorage* storage : storages_) drop_storage(engine_, storage);
  }

 protected:
  void run_ops(std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      FakeOp op(engine_, 1'000 + i, i == 0);
      ASSERT_TRUE(op.read(*storages_[i % kCount]));
      ASSERT_TRUE(engine_.inputs_ready());
      if (i == kAllocates) engine_.free(engine_.allocate(kAllocated.count));
    }
  }
  bool expected() const {
    return std::ranges::find(tier_->expected(), kAllocated) != tier_->expected().end();
  }

  static constexpr std::uint64_t kOps = 80;
  static constexpr std::uint64_t kAllocates = 70;
  static constexpr Bytes kAllocated{300'000};
  std::vector<FakeStorage*> storages_;
};

// Looking ahead is limited in time: on a busy machine some steps go without.
TEST_F(ExpectedAllocationsTest, TheTierIsToldBeforeTheOpComes) {
  for (int step = 0; step < 5; ++step) run_ops(0, kOps);
  bool told = false;
  for (int step = 0; step < 200 && !told; ++step) {
    run_ops(0, kAllocates);
    told = expected();
    run_ops(kAllocates, kOps);
  }
  EXPECT_TRUE(told);
}

INSTANTIATE_TEST_SUITE_P(Modes, EngineTierTest,
                         ::testing::Values(Mode::kEnforce, Mode::kVerify, Mode::kFuzz));

}  // namespace
}  // namespace spillway::runtime
