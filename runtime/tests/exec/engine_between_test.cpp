// SPDX-License-Identifier: Apache-2.0
// The storages that threads hold after an op, while others need room.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "engine_fixture.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

constexpr std::uint64_t kBytes = 1 << 20;

class EngineBetweenTest : public EngineTest {
 protected:
  /// Runs `body` while another thread has made a storage by its last op, and rests.
  template <class Body>
  void beside_an_idle_thread(const Body& body) {
    std::atomic<FakeStorage*> made{nullptr};
    std::atomic<bool> ends{false};
    std::thread idle([&] {
      made.store(make(kBytes, 7));
      while (!ends.load()) std::this_thread::yield();
    });
    while (made.load() == nullptr) std::this_thread::yield();
    body(*made.load());
    ends.store(true);
    idle.join();
  }
  bool fits(std::uint64_t bytes) {
    try {
      engine_.free(engine_.allocate(bytes));
    } catch (const OutOfBudget&) {
      return false;
    }
    return true;
  }
};

TEST_F(EngineBetweenTest, WhatAnIdleThreadMadeLeavesOnceItIsHandedOver) {
  start(kMiB * 2);
  beside_an_idle_thread([&](FakeStorage& made) {
    EXPECT_FALSE(fits(kBytes * 3 / 2)) << "it may still be filled";
    EXPECT_EQ(made.record->state.load(), ResidencyState::kResident);
    made.handed_over.store(true);
    EXPECT_TRUE(fits(kBytes * 3 / 2));
    EXPECT_EQ(made.record->state.load(), ResidencyState::kOnDisk);
    EXPECT_EQ(made.record->pins.load(), 0U);
    EXPECT_TRUE(holds(made, 7));
  });
}

TEST_F(EngineBetweenTest, WhatOthersLetGoOfIsNotLetGoOfTwice) {
  start(kMiB * 2);
  FakeStorage* const mine = make(kBytes, 1);
  mine->handed_over.store(true);
  EXPECT_TRUE(fits(kBytes * 3 / 2));  // this thread's own
  EXPECT_EQ(mine->record->pins.load(), 0U);
  EXPECT_TRUE(holds(*mine, 1));  // two ops on
  EXPECT_EQ(mine->record->pins.load(), 0U);
}

TEST_F(EngineBetweenTest, AddressesAreGoodUntilTheNextOp) {
  start(kMiB * 2);
  FakeStorage* a = make(kBytes, 1);
  FakeStorage* b = make(kBytes, 2);
  FakeStorage* c = make(kBytes, 3);
  { const FakeOp op(engine_); }
  EXPECT_TRUE(engine_.give_address(*a->record));
  EXPECT_TRUE(engine_.give_address(*b->record));
  EXPECT_TRUE(engine_.give_address(*a->record));
  EXPECT_FALSE(engine_.give_address(*c->record));
  EXPECT_NE(Engine::last_failure().find("2 addresses that were given"), std::string::npos);
  EXPECT_TRUE(a->accessible.load() && a->holds(1) && b->accessible.load() && b->holds(2));
  { const FakeOp op(engine_); }
  EXPECT_EQ(a->record->pins.load() + b->record->pins.load() + c->record->pins.load(), 0U);
  EXPECT_TRUE(engine_.give_address(*c->record));
  EXPECT_TRUE(c->holds(3));
}

}  // namespace
}  // namespace spillway::runtime
