// SPDX-License-Identifier: Apache-2.0
// What the engine shows of a running program on the status page.
#include "engine_fixture.hpp"
#include "spillway/runtime/status_page.hpp"

namespace spillway::runtime {
namespace {

class EngineStatus : public EngineTest {
 protected:
  EngineStatus() {
    Settings wanted = settings(kMiB * 64);
    wanted.mode = Mode::kEnforce;
    wanted.status_path = status_.path();
    engine_.start(wanted);
  }
  void ops(std::uint64_t count, bool boundary = false) {
    for (std::uint64_t i = 0; i < count; ++i) const FakeOp op(engine_, 1 + i, boundary);
  }
  [[nodiscard]] const StatusSlot& slot() const { return status_.page()->slots[0]; }
  [[nodiscard]] std::uint64_t ops_in_step() const { return slot().ops - slot().step_began_ops; }

 private:
  StatusMapping status_ = StatusMapping::create();
};

// ops   . . . B . . . . B . .      B: a step is counted, and the page brought up to date
//             |--- 5 ---|
TEST_F(EngineStatus, KnowsTheOpsOfAStepOnceTwoWereCounted) {
  ops(3);
  ops(1, true);
  EXPECT_EQ(slot().steps, 1U);
  EXPECT_EQ(slot().last_step_ops, 0U) << "the ops before the first are not only the step's";
  ops(4);
  ops(1, true);
  EXPECT_EQ(slot().steps, 2U);
  EXPECT_EQ(slot().last_step_ops, 5U);
  EXPECT_EQ(ops_in_step(), 0U);
}

TEST_F(EngineStatus, CountsOpsBetweenSteps) {
  ops(1, true);
  ops(2 * StatusRhythm::kMostOps);
  EXPECT_GE(ops_in_step(), StatusRhythm::kMostOps);
  EXPECT_LE(ops_in_step(), 2 * StatusRhythm::kMostOps);
}

}  // namespace
}  // namespace spillway::runtime
