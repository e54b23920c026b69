// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/frame_scope.hpp"

#include <stdexcept>
#include <utility>
#include <vector>

#include "engine_fixture.hpp"

namespace spillway::runtime {
namespace {

constexpr std::uint64_t kSize = 1 << 20;
constexpr Engine::Op kOp{.name = "op", .signature = 0, .boundary = false};

class FrameScopeTest : public EngineTest {
 protected:
  static std::uint32_t depth() { return this_thread_frames().depth; }
};

TEST_F(FrameScopeTest, EndsWhenSomethingIsThrown) {
  start(Bytes{4 * kSize});
  FakeStorage* const storage = make(kSize, 1);
  try {
    FrameScope frame;
    frame.begin(engine_, kOp);
    ASSERT_TRUE(engine_.use(*storage->record, Access::kRead));
    ASSERT_EQ(storage->record->pins.load(), 1U);
    throw std::runtime_error("a visit fails");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(depth(), 0U);
  EXPECT_EQ(storage->record->pins.load(), 0U);
  drop_storage(engine_, storage);
}

TEST_F(FrameScopeTest, EndsOnceWhereverItWasMovedTo) {
  start(Bytes{4 * kSize});
  std::vector<FrameScope> frames;
  for (int i = 0; i < 9; ++i) {  // more than fit without moving
    frames.emplace_back();
    frames.back().begin(engine_, kOp);
  }
  EXPECT_EQ(depth(), 9U);
  FrameScope last = std::move(frames.back());
  frames.pop_back();
  EXPECT_EQ(depth(), 9U);
  last.end();
  last.end();
  EXPECT_EQ(depth(), 8U);
  while (!frames.empty()) frames.pop_back();
  EXPECT_EQ(depth(), 0U);
}

TEST_F(FrameScopeTest, EndsWhenTheEngineStoppedMeanwhile) {
  start(Bytes{4 * kSize});
  const std::uint64_t ended = frames_ended();
  {
    FrameScope frame;
    frame.begin(engine_, kOp);
    engine_.stop();
  }
  EXPECT_EQ(depth(), 0U);
  EXPECT_EQ(frames_ended(), ended + 1);
}

TEST_F(FrameScopeTest, OneThatNeverBeganEndsNothing) {
  start(Bytes{4 * kSize});
  FrameScope outer;
  outer.begin(engine_, kOp);
  {
    FrameScope empty;
    EXPECT_EQ(empty.end(), Bytes{});
  }
  EXPECT_EQ(depth(), 1U);
}

}  // namespace
}  // namespace spillway::runtime
