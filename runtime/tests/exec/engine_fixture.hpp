// SPDX-License-Identifier: Apache-2.0
// An engine over fake storages, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "spillway/base/fault.hpp"
#include "spillway/runtime/exec/engine.hpp"
#include "spillway/testing/fake_framework.hpp"

namespace spillway::runtime {

using spillway::testing::drop_storage;
using spillway::testing::FakeFramework;
using spillway::testing::FakeOp;
using spillway::testing::FakeStorage;
using spillway::testing::make_storage;

/// Engines are never destroyed; kept reachable so that no leak is reported. Their reservations stay
/// too: small ones, so that there is room for many.
inline Engine& new_engine(Framework& framework) {
  static auto* const engines = new std::vector<Engine*>();
  constexpr ArenaOptions kArena{
      .reservation = kGiB * 4, .minimum = kGiB, .colouring = Colouring::kNo};
  return *engines->emplace_back(new Engine(framework, kArena));
}

class EngineTest : public ::testing::Test {
 public:
  ~EngineTest() override {
    arm_faults("");
    engine_.stop();
    renew_this_thread_frames();
  }

 protected:
  static Settings settings(Bytes budget) {
    Settings result;
    result.budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = budget};
    result.disk_budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = kGiB};
    result.spool_dir = ::testing::TempDir();
    return result;
  }
  void start(Bytes budget, Mode mode = Mode::kEnforce) {
    Settings wanted = settings(budget);
    wanted.mode = mode;
    engine_.start(wanted);
  }
  /// In an op of its own, filled with its seed.
  FakeStorage* make(std::uint64_t bytes, std::uint64_t seed) {
    FakeStorage* storage = nullptr;
    {
      const FakeOp op(engine_);
      storage = make_storage(engine_, bytes);
      storage->fill(seed);
    }
    return storage;
  }
  bool holds(const FakeStorage& storage, std::uint64_t seed) {
    FakeOp op(engine_);
    return op.read(storage) && storage.accessible.load() && storage.holds(seed);
  }

  FakeFramework& framework_ = *new FakeFramework();  // lives as long as the engine
  Engine& engine_ = new_engine(framework_);
};

}  // namespace spillway::runtime
