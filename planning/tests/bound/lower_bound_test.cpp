// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/bound/lower_bound.hpp"

#include <gtest/gtest.h>

#include "spillway/testing/small_steps.hpp"

namespace spillway::planning {
namespace {

using testing::plain_machine;
using testing::StepBuilder;

Budgets budgets(std::uint64_t device, std::uint64_t host, std::uint64_t disk = 0) {
  Budgets all;
  all[Tier::kDevice] = Bytes{device};
  all[Tier::kHost] = Bytes{host};
  all[Tier::kDisk] = Bytes{disk};
  return all;
}

//   op 0 (100)   creates a, 1000 bytes
//   op 1 (200)   creates and frees b, 1000 bytes
//   op 2 (100)   reads a
// With 1500 bytes a must be out during op 1: 1000 ns out, 1000 ns in at a byte per ns, and no op
// can run meanwhile. At the beginning of op 1 and at its end 500 of the 2000 bytes are too many.
// The bound takes storages in part: at least half of a goes out and comes back.
TEST(LowerBoundTest, AStorageInTheWayOfOneOpIsChargedOutAndIn) {
  StepBuilder step;
  const StorageId a = step.temporary(1000, "a");
  const StorageId b = step.temporary(1000, "b");
  step.op(100, {.creates = {a}});
  step.op(200, {.creates = {b}, .frees = {b}});
  step.op(100, {.reads = {a}, .frees = {a}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  const LowerBound bound = lower_bound(StepModel({trace, machine, budgets(1500, 10'000)}));
  EXPECT_EQ(bound.compute_ns, 400);
  EXPECT_GE(bound.step_ns, 400 + 2 * 500 - 200 - 2);
  EXPECT_LE(bound.step_ns, 400 + 2000);
  const LowerBound roomy = lower_bound(StepModel({trace, machine, budgets(2000, 10'000)}));
  EXPECT_EQ(roomy.step_ns, 400);
  EXPECT_TRUE(roomy.windows.empty());
}

TEST(LowerBoundTest, WhatCanBeComputedAgainCostsNoMoreThanThat) {
  StepBuilder step;
  const StorageId weight = step.persistent(1, "weight");
  const StorageId a = step.temporary(1000, "a");
  const StorageId b = step.temporary(1000, "b");
  step.op(30, {.creates = {a}, .reads = {weight}, .recomputable = true});
  step.op(200, {.creates = {b}, .frees = {b}});
  step.op(100, {.reads = {a}, .frees = {a}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  const LowerBound bound = lower_bound(StepModel({trace, machine, budgets(1101, 10'000)}));
  EXPECT_LE(bound.step_ns, 330 + 30);
  EXPECT_GT(bound.step_ns, 330);
}

// Two such places in one step: the demands of disjoint windows add up.
TEST(LowerBoundTest, DisjointWindowsAddUp) {
  const Machine machine = plain_machine();
  const auto bound_of = [&](int times) {
    StepBuilder step;
    std::vector<StorageId> a, b;
    for (int i = 0; i < times; ++i) {
      a.push_back(step.temporary(1000, "a"));
      b.push_back(step.temporary(1000, "b"));
      step.op(10, {.creates = {a.back()}});
      step.op(10, {.creates = {b.back()}, .frees = {b.back()}});
      step.op(10, {.reads = {a.back()}, .frees = {a.back()}});
    }
    const Trace trace = step.build();
    return lower_bound(StepModel({trace, machine, budgets(1200, 10'000)}));
  };
  const TimeNs once = bound_of(1).step_ns - 30;
  EXPECT_GT(once, 0);
  EXPECT_GE(bound_of(5).step_ns, 5 * (30 + once) - 5);
}

//   op 0 (100)   reads and writes w, 1000 bytes that live on
//   op 1 (100)   creates and frees b, 1000 bytes
//   op 2 (100)   creates and frees c, 1000 bytes
// With 1500 bytes w is out during ops 1 and 2, and back for the next step: 1000 ns out after op 0,
// 1000 ns in after op 2. What windows say for one instant prices say too.
TEST(LowerBoundTest, WhatLivesOnGoesOutAndComesBackOnceAStep) {
  StepBuilder step;
  const StorageId w = step.persistent(1000, "w");
  const StorageId b = step.temporary(1000, "b");
  const StorageId c = step.temporary(1000, "c");
  step.op(100, {.reads = {w}, .writes = {w}});
  step.op(100, {.creates = {b}, .frees = {b}});
  step.op(100, {.creates = {c}, .frees = {c}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  const LowerBound bound = lower_bound(StepModel({trace, machine, budgets(1500, 10'000)}));
  EXPECT_GE(bound.step_ns, 300 + 2000 - 5);
  EXPECT_LE(bound.step_ns, 300 + 2000);
}

// A storage that lives on and is read in three places, each beside ops that leave no room for it:
// it is written once, so it goes out once and comes back three times.
TEST(LowerBoundTest, WhatIsNotWrittenBetweenItsGapsGoesOutOnce) {
  StepBuilder step;
  const StorageId w = step.persistent(1000, "w");
  for (int i = 0; i < 3; ++i) {
    const StorageId b = step.temporary(1000, "b");
    step.op(10, {.creates = {b}, .frees = {b}});
    StepBuilder::Op use{.reads = {w}};
    if (i == 2) use.writes = {w};
    step.op(10, use);
  }
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  const LowerBound bound = lower_bound(StepModel({trace, machine, budgets(1500, 10'000)}));
  EXPECT_GE(bound.step_ns, 60 + 4000 - 10);
  EXPECT_LE(bound.step_ns, 60 + 4000);
}

TEST(LowerBoundTest, WhatNeitherDeviceNorHostHoldsCrossesTheDisk) {
  StepBuilder step;
  const StorageId a = step.temporary(1000, "a");
  const StorageId b = step.temporary(1000, "b");
  step.op(100, {.creates = {a}});
  step.op(100, {.creates = {b}, .frees = {b}});
  step.op(100, {.reads = {a}, .frees = {a}});
  const Trace trace = step.build();
  Machine machine = plain_machine();
  machine.links[2]->bytes_per_second = machine.links[3]->bytes_per_second = 1e8;  // 10 ns a byte
  const LowerBound disk = lower_bound(StepModel({trace, machine, budgets(1000, 10, 10'000)}));
  const LowerBound host = lower_bound(StepModel({trace, machine, budgets(1000, 2000, 10'000)}));
  EXPECT_GT(disk.step_ns, 9000);
  EXPECT_LT(host.step_ns, 3000);
}

// The step of the first test, with 1900 of its 2000 bytes: what binds is what is made slow.
class BindingTest : public ::testing::Test {
 protected:
  struct Links {
    double out = 1e11, in = 1e11, to_disk = 1e11, from_disk = 1e11;
  };
  static LowerBound bound_of(const Links& links, bool recomputable, bool with_host) {
    StepBuilder step;
    const StorageId a = step.temporary(1000, "a");
    const StorageId b = step.temporary(1000, "b");
    step.op(50, {.creates = {a}, .recomputable = recomputable});
    step.op(100, {.creates = {b}, .frees = {b}});
    step.op(100, {.reads = {a}, .frees = {a}});
    const Trace trace = step.build();
    Machine machine = plain_machine();
    const auto set = [&](LinkKind link, double speed) {
      machine.links[index_of(link)]->bytes_per_second = speed;
    };
    set(LinkKind::kDeviceToHost, links.out);
    set(LinkKind::kHostToDevice, links.in);
    set(LinkKind::kHostToDisk, links.to_disk);
    set(LinkKind::kDiskToHost, links.from_disk);
    return lower_bound(StepModel({trace, machine, budgets(1900, with_host ? 10'000 : 0, 10'000)}));
  }

  /// Most of the extra time is owed to it alone, and the room that is short is told.
  static void expect(const LowerBound& bound, BoundCause cause, std::uint64_t budget = 1900) {
    ASSERT_TRUE(bound.binds);
    EXPECT_EQ(to_string(*bound.binds), to_string(cause));
    double all = 0;
    for (const double part : bound.extra_ns) all += part;
    EXPECT_GT(bound.extra_ns[static_cast<std::size_t>(cause)], 0.9 * all);
    EXPECT_NEAR(all, static_cast<double>(bound.step_ns - bound.compute_ns), 1);
    EXPECT_EQ(bound.room.op, 1U);
    EXPECT_EQ(bound.room.bytes_alive, 2000U);
    EXPECT_EQ(bound.room.budget, budget);
  }
};

TEST_F(BindingTest, CopiesIn) { expect(bound_of({.in = 1e9}, false, true), BoundCause::kFetching); }
TEST_F(BindingTest, CopiesOut) {
  expect(bound_of({.out = 1e9}, false, true), BoundCause::kEvicting);
}
TEST_F(BindingTest, OpsRunAgainAreNotCalledCopies) {
  expect(bound_of({.out = 1e8, .in = 1e8}, true, true), BoundCause::kRecomputing);
}
TEST_F(BindingTest, CopiesFromDisk) {
  expect(bound_of({.from_disk = 1e9}, false, false), BoundCause::kFromDisk);
}
TEST_F(BindingTest, CopiesToDisk) {
  expect(bound_of({.to_disk = 1e9}, false, false), BoundCause::kToDisk);
}
TEST_F(BindingTest, NothingBindsWhereAllFits) {
  StepBuilder step;
  const StorageId a = step.temporary(1000, "a");
  step.op(50, {.creates = {a}, .frees = {a}});
  const Trace trace = step.build();
  const Machine machine = plain_machine();
  EXPECT_FALSE(lower_bound(StepModel({trace, machine, budgets(1900, 0)})).binds);
}

}  // namespace
}  // namespace spillway::planning
