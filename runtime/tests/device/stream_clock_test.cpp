// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/stream_clock.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device_fixture.hpp"

namespace spillway::runtime {
namespace {

using ::testing::HasSubstr;

class StreamClockTest : public DeviceFixture {};

TEST_F(StreamClockTest, AFencePassesWhenItsStreamsHaveDoneWhatTheyHad) {
  HeldStream held(device_, one_);
  Fence fence = clock_.fence(clock_.slot_of(one_));
  fence.join(clock_.fence(clock_.slot_of(two_)));
  EXPECT_FALSE(clock_.passed(fence));
  EXPECT_TRUE(clock_.passed(Fence{})) << "nothing to wait for";
  held.release();
  clock_.wait(fence);
  EXPECT_TRUE(clock_.passed(fence));
}

//   one   [held] use            later
//   host         fence |tick|         the tick passes although what came later is held
TEST_F(StreamClockTest, AFenceIsOfWhatWasEnqueuedBeforeIt) {
  const StreamSlot slot = clock_.slot_of(one_);
  const Fence fence = clock_.fence(slot);
  clock_.tick(slot);
  HeldStream held(device_, one_);
  clock_.wait(fence);
  EXPECT_TRUE(clock_.passed(fence));
  EXPECT_FALSE(clock_.passed(clock_.fence(slot)));
}

TEST_F(StreamClockTest, ATickBeforeTheUseIsNotEnough) {
  const StreamSlot slot = clock_.slot_of(one_);
  clock_.tick(slot);
  HeldStream held(device_, one_);
  const Fence fence = clock_.fence(slot);  // the use: after the tick
  ASSERT_TRUE(device_.synchronize_stream(two_).done());
  EXPECT_FALSE(clock_.passed(fence));
}

TEST_F(StreamClockTest, AnotherStreamsWorkStartsAfterTheFence) {
  std::atomic<int> order{0};
  HeldStream held(device_, one_);
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  ASSERT_TRUE(device_.launch(one_, {}, [&](auto) { first = ++order; }).done());
  clock_.order_after(two_, clock_.fence(clock_.slot_of(one_)));
  ASSERT_TRUE(device_.launch(two_, {}, [&](auto) { second = ++order; }).done());
  EXPECT_FALSE(idle(two_));
  held.release();
  ASSERT_TRUE(device_.synchronize().done());
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST_F(StreamClockTest, AStreamDoesNotWaitForItself) {
  clock_.order_after(one_, clock_.fence(clock_.slot_of(one_)));
  EXPECT_EQ(clock_.event_count(), 0U);
}

TEST_F(StreamClockTest, SixteenOpsOrSixtyFourMebibytesMakeATick) {
  const StreamSlot slot = clock_.slot_of(one_);
  for (int op = 0; op < 15; ++op) clock_.launched(slot);
  EXPECT_EQ(clock_.event_count(), 0U) << "a use costs no event";
  clock_.launched(slot);
  EXPECT_EQ(clock_.event_count(), 1U);
  const StreamMoment before = clock_.moment();
  clock_.launched(slot, kMiB * 63);
  EXPECT_EQ(clock_.moment(), before);
  clock_.launched(slot, kMiB);
  EXPECT_EQ(clock_.moment(), before + 1);
}

TEST_F(StreamClockTest, EventsAreUsedAgain) {
  const StreamSlot slot = clock_.slot_of(one_);
  for (int round = 0; round < 200; ++round) {
    const Fence fence = clock_.fence(slot);
    clock_.tick(slot);
    clock_.wait(fence);
  }
  EXPECT_LE(clock_.event_count(), 2U);
}

TEST_F(StreamClockTest, StreamsBeyondTheSlotsShareTheLastOne) {
  std::vector<DeviceStream> streams;
  std::set<StreamSlot> slots;
  for (unsigned i = 0; i < kStreamSlots + 3; ++i) {
    streams.push_back(stream());
    slots.insert(clock_.slot_of(streams.back()));
  }
  EXPECT_EQ(slots.size(), kStreamSlots);
  EXPECT_EQ(clock_.slot_of(streams[5]), 5U) << "a slot is for good";
  const StreamSlot last = clock_.slot_of(streams.back());
  EXPECT_EQ(last, kStreamSlots - 1);
  HeldStream held(device_, streams[kStreamSlots]);
  EXPECT_FALSE(clock_.passed(clock_.fence(last))) << "of one means of all";
  clock_.order_after(one_, clock_.fence(last));
  held.release();
  clock_.wait(clock_.fence(last));
}

TEST_F(StreamClockTest, TellsWhatAHostThreadWaitsFor) {
  HeldStream held(device_, two_);
  clock_.slot_of(one_);
  const Fence fence = clock_.fence(clock_.slot_of(two_));
  EXPECT_EQ(clock_.awaited(), "");
  std::thread waiter([&] { clock_.wait(fence); });
  std::string told;
  while (told.empty()) told = clock_.awaited();
  held.release();
  waiter.join();
  EXPECT_THAT(told, HasSubstr("stream 0x2 is before tick 2, 1 host thread(s) wait for it"));
  EXPECT_EQ(clock_.awaited(), "");
}

class CapturedStreamTest : public StreamClockTest {
 protected:
  using CaptureMode = spillway::testing::CaptureMode;

  CapturedStreamTest() {
    clock_.slot_of(two_);
    // As a program's thread.
    spillway::testing::CaptureDevice::thread_mode() = CaptureMode::kGlobal;
  }
  void begin() {
    clock_.begin_captures();
    EXPECT_TRUE(device_.begin_capture(two_, CaptureMode::kRelaxed).done());
  }
  void end_well() {
    spillway::testing::CapturedGraph graph;
    EXPECT_TRUE(device_.end_capture(two_, graph).done());
    EXPECT_TRUE(graph.empty()) << "work that is not the program's";
    clock_.end_captures();
  }
};

TEST_F(CapturedStreamTest, WhatWasGivenToItBeforeIsAwaited) {
  HeldStream held(device_, two_);
  begin();
  const Fence fence = clock_.fence(clock_.slot_of(two_));
  EXPECT_FALSE(clock_.passed(fence));
  clock_.order_after(one_, fence);
  EXPECT_FALSE(idle(one_));
  held.release();
  clock_.wait(fence);
  EXPECT_TRUE(clock_.passed(fence)) << "nothing more comes of it";
  clock_.tick(clock_.slot_of(two_));
  end_well();
}

TEST_F(CapturedStreamTest, TheHostWaitsInItsPlace) {
  HeldStream held(device_, one_);
  const Fence fence = clock_.fence(clock_.slot_of(one_));
  begin();
  std::atomic<int> ordered{0};
  std::thread one([&] { clock_.order_after(two_, fence), ++ordered; });
  std::thread all([&] { clock_.order_all_after(fence), ++ordered; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ordered, 0);
  held.release();
  one.join();
  all.join();
  EXPECT_TRUE(clock_.passed(fence));
  end_well();
}

//   begin_captures    two   [held] op    begins to be captured         release
//                     who asks                        has not passed           has
TEST_F(CapturedStreamTest, WhatItWasGivenSinceCapturesWerePossibleIsAwaitedToo) {
  const StreamSlot slot = clock_.slot_of(two_);
  clock_.begin_captures();
  HeldStream held(device_, two_);
  const Fence fence = clock_.fence(slot);
  clock_.launched(slot);
  EXPECT_TRUE(device_.begin_capture(two_, CaptureMode::kRelaxed).done());
  EXPECT_FALSE(clock_.passed(fence));
  EXPECT_FALSE(clock_.passed(fence));
  held.release();
  clock_.wait(fence);
  EXPECT_TRUE(clock_.passed(fence));
  end_well();
  const StreamMoment before = clock_.moment();
  clock_.launched(slot);
  EXPECT_EQ(clock_.moment(), before) << "seldom again";
}

TEST_F(CapturedStreamTest, PossibleCapturesCostNoEventsForEver) {
  for (int i = 0; i < 100; ++i) {
    clock_.begin_captures();
    clock_.end_captures();
    ASSERT_TRUE(device_.synchronize().done());
  }
  EXPECT_LE(clock_.event_count(), 4U);
}

TEST_F(CapturedStreamTest, AfterwardsItIsAsAnyOther) {
  begin();
  clock_.wait(clock_.fence_of_all());
  end_well();
  HeldStream held(device_, two_);
  const Fence fence = clock_.fence(clock_.slot_of(two_));
  EXPECT_FALSE(clock_.passed(fence));
  held.release();
  clock_.wait(fence);
}

TEST_F(StreamClockTest, AFailureSaysWhatWasDone) {
  device_.fail(DeviceCall::kRecord, 1, ThreadDevice::kInvalid);
  const StreamSlot slot = clock_.slot_of(one_);
  try {
    clock_.tick(slot);
    FAIL() << "no event was recorded";
  } catch (const DeviceFailure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("recording an event: invalid value (1)"));
  }
  clock_.tick(slot);
  EXPECT_EQ(clock_.event_count(), 1U) << "the event was not lost";
}

TEST_F(StreamClockTest, WhatAStreamDidThatIsGoneHasPassed) {
  const StreamSlot slot = clock_.slot_of(one_);
  const Fence fence = clock_.fence(slot);
  ASSERT_TRUE(device_.synchronize_stream(one_).done());
  clock_.forget(one_);
  ASSERT_TRUE(device_.destroy_stream(one_).done());
  EXPECT_TRUE(clock_.passed(fence));
  EXPECT_TRUE(clock_.fence_of_all().empty());
  clock_.wait(fence);
  clock_.order_after(two_, fence);
  clock_.order_all_after(clock_.fence(clock_.slot_of(two_)));
  one_ = stream();  // as the fixture closes
}

TEST_F(StreamClockTest, AStreamThatTakesAForgottenOnesPlaceIsAwaited) {
  const StreamSlot slot = clock_.slot_of(one_);
  clock_.forget(one_);
  ASSERT_EQ(clock_.slot_of(two_), slot);
  HeldStream held(device_, two_);
  const Fence fence = clock_.fence(slot);
  EXPECT_FALSE(clock_.passed(fence));
  held.release();
  clock_.wait(fence);
}

TEST_F(StreamClockTest, NobodyIsAwaitedForEverWhenTheDeviceIsLost) {
  const Fence fence = clock_.fence(clock_.slot_of(one_));
  clock_.tick(clock_.slot_of(one_));
  device_.lose();
  EXPECT_THROW(clock_.wait(fence), DeviceFailure);
  EXPECT_THROW(clock_.order_after(two_, clock_.fence(clock_.slot_of(one_))), DeviceFailure);
}

/// Threads launch, note, tick and ask at once; each sees its own uses pass.
TEST_F(StreamClockTest, ManyThreads) {
  std::vector<std::thread> threads;
  for (const DeviceStream mine : {one_, two_, one_, two_}) {
    threads.emplace_back([this, mine] {
      const StreamSlot slot = clock_.slot_of(mine);
      for (int i = 0; i < 200; ++i) {
        std::atomic<bool> done{false};
        EXPECT_TRUE(device_.launch(mine, {}, [&](auto) { done = true; }).done());
        const Fence fence = clock_.fence(slot);
        clock_.launched(slot);
        if (i % 2 == 0) {
          clock_.wait(fence);
        } else {
          while (!clock_.passed(fence)) std::this_thread::yield();
        }
        EXPECT_TRUE(done);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace spillway::runtime
