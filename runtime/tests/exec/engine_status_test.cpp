// SPDX-License-Identifier: Apache-2.0
// The status page of a running program.
#include "engine_fixture.hpp"
#include "exec/status_rhythm.hpp"
#include "spillway/runtime/status_page.hpp"

namespace spillway::runtime {
namespace {

class EngineStatusTest : public EngineTest {
 protected:
  EngineStatusTest() {
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

TEST_F(EngineStatusTest, ShowsNoBudgetOnceTheEngineHasStopped) {
  EXPECT_EQ(slot().budget_bytes, (kMiB * 64).count);
  engine_.stop();
  EXPECT_EQ(slot().budget_bytes, 0U);
}

TEST_F(EngineStatusTest, SaysWherePagesComeFrom) {
  EXPECT_EQ(std::string(slot().pages.data()), engine_.statistics().pages);
  EXPECT_NE(slot().pages[0], '\0');
}

TEST_F(EngineStatusTest, CountsTheOpsThatStatisticsCount) {
  EXPECT_EQ(engine_.ops(), 0U);
  ops(3, true);
  EXPECT_EQ(engine_.ops(), 3U);
  EXPECT_EQ(engine_.statistics().ops, 3U);
  EXPECT_EQ(slot().ops, 3U);
}

// ops   . . . B . . . . B . .      B: a step is counted, and the page brought up to date
//             |--- 5 ---|
TEST_F(EngineStatusTest, KnowsTheOpsOfAStepOnceTwoWereCounted) {
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

TEST_F(EngineStatusTest, CountsOpsBetweenSteps) {
  ops(1, true);
  ops(2 * StatusRhythm::kMostOps);
  EXPECT_GE(ops_in_step(), StatusRhythm::kMostOps);
  EXPECT_LE(ops_in_step(), 2 * StatusRhythm::kMostOps);
}

TEST_F(EngineStatusTest, CountsStepsThatAreNotWatched) {
  ops(1, true);
  ops(1, true);
  engine_.note_rest(true);
  EXPECT_EQ(slot().stopped_after_step, 2U);
  for (int i = 0; i < 7; ++i) engine_.note_unwatched_step();
  EXPECT_EQ(slot().steps, 9U);
  EXPECT_EQ(engine_.statistics().steps, 9U);
  EXPECT_EQ(engine_.statistics().stopped_after_step, 2U);
  engine_.note_rest(false);
  engine_.note_unwatched_step();
  EXPECT_EQ(slot().steps, 9U) << "the ops show it";
  EXPECT_EQ(slot().stopped_after_step, 0U);
}

// The repetition was a part of a step, or of the making of the model.
TEST_F(EngineStatusTest, CountsNoStepAfterRepetitionsOfOps) {
  engine_.note_rest(true);
  engine_.note_unwatched_step();
  EXPECT_EQ(engine_.statistics().steps, 0U);
}

TEST_F(EngineStatusTest, TellsTheUseOfMemoryAtOnce) {
  ops(1);
  make(kMiB.count, 1);
  EXPECT_GE(slot().peak_device_bytes, kMiB.count);
  EXPECT_GE(slot().device_bytes, kMiB.count);
}

TEST_F(EngineStatusTest, TellsAShortageAtOnceAndThatTheProgramWentOn) {
  {
    const FakeOp op(engine_);
    for (int i = 0; i < 2; ++i) {
      EXPECT_THROW(engine_.allocate(kMiB.count * 65), OutOfBudget);
      EXPECT_EQ(slot().shortages, 1U) << "one op";
    }
    EXPECT_GE(slot().short_bytes, kMiB.count);
    EXPECT_EQ(slot().ops, slot().ops_at_shortage);
  }
  ops(1);
  EXPECT_GT(slot().ops, slot().ops_at_shortage);
}

TEST_F(EngineStatusTest, KeepsWhatItDiedOf) {
  EXPECT_NE(slot().started_ns, 0U);
  engine_.note_end(Ending::kOutOfMemory, false);
  engine_.note_end(Ending::kOther, true);
  EXPECT_EQ(slot().ending, static_cast<std::uint32_t>(Ending::kOutOfMemory));
  EXPECT_EQ(slot().unwritten, 1U);
  EXPECT_GE(slot().ended_ns, slot().started_ns);
  EXPECT_TRUE(engine_.statistics().out_of_memory);
}

}  // namespace
}  // namespace spillway::runtime
