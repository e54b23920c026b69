// SPDX-License-Identifier: Apache-2.0
// The engine's measurements in record mode: the floor of any budget, and the step.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "engine_fixture.hpp"

namespace spillway::runtime {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;

TEST_F(EngineTest, TheFloorCountsWhatCannotLeave) {
  Settings wanted = settings(kGiB);
  wanted.mode = Mode::kRecord;
  wanted.min_size = kMiB;
  engine_.start(wanted);
  for (std::uint64_t seed = 0; seed < 4; ++seed) make(kMiB.count / 2, seed);
  FakeStorage* const kept = make(kBytes, 5);
  make(8 * kBytes, 6);  // may leave
  FakeStorage* const used = make(kBytes, 7);
  ASSERT_TRUE(engine_.keep(*kept->record));
  engine_.reset_peak();
  {
    FakeOp op(engine_);
    ASSERT_TRUE(op.read(*used));
    ASSERT_TRUE(op.read(*kept)) << "counts once";
    ASSERT_TRUE(engine_.inputs_ready());
    engine_.free(engine_.allocate(3 * kBytes));
  }
  EXPECT_EQ(engine_.statistics().floor, Bytes{4 * kMiB.count / 2 + 5 * kBytes});
}

TEST_F(EngineTest, TheFloorCountsInputsThatEndInsideTheOp) {
  start(kGiB, Mode::kRecord);
  FakeStorage* const input = make(2 * kBytes, 1);
  engine_.reset_peak();
  {
    FakeOp op(engine_);
    ASSERT_TRUE(op.read(*input));
    ASSERT_TRUE(op.read(*input)) << "counts once";
    std::byte* const first = engine_.allocate(kBytes);  // beside the input
    engine_.free(input->pointer);
    std::byte* const second = engine_.allocate(kBytes);  // less than what was given back
    engine_.free(first);
    engine_.free(second);
  }
  EXPECT_EQ(engine_.statistics().floor, Bytes{3 * kBytes});
}

TEST_F(EngineTest, RecordModeMeasuresTheFloorAndTheStep) {
  Settings wanted = settings(kMiB * 64);
  wanted.mode = Mode::kRecord;
  wanted.trace_path = "unused";
  engine_.start(wanted);
  FakeStorage* a = make(kBytes, 1);
  for (int step = 0; step < 2; ++step) {
    // Freed between ops: what it held must not count against the next.
    engine_.free(engine_.allocate(6 * kBytes));
    FakeOp op(engine_, 7, true);
    ASSERT_TRUE(op.read(*a));
    engine_.free(engine_.allocate(3 * kBytes));
  }
  EXPECT_EQ(engine_.statistics().floor, kMiB * 4);
  const auto trace = engine_.trace();
  ASSERT_TRUE(trace);
  EXPECT_EQ(validate(*trace), std::nullopt);
  EXPECT_EQ(engine_.steps(), 2U);
}

}  // namespace
}  // namespace spillway::runtime
