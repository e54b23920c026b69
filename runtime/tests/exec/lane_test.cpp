// SPDX-License-Identifier: Apache-2.0
// A training step whose backward pass runs on another thread, as it does where an accelerator has
// threads of its own.
//
//     main thread   f0 f1 .. f39                 | f0 f1 ..
//     another                     b39 .. b1 b0   |
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "engine_fixture.hpp"

namespace spillway::runtime {
namespace {

constexpr std::uint64_t kBytes = 64 << 10;
constexpr std::uint64_t kLayers = 40;
constexpr int kStepsToLearn = 5;

class LaneTest : public EngineTest {
 protected:
  LaneTest() {
    start(kMiB * 64);  // everything fits
    for (std::uint64_t i = 0; i < kLayers; ++i) activations_.push_back(make(kBytes, i));
  }

  void run_op(std::uint64_t signature, const FakeStorage& storage, Access access) {
    FakeOp op(engine_, signature, signature == kFirst);
    ASSERT_TRUE(access == Access::kWrite ? op.write(storage) : op.read(storage));
    ASSERT_TRUE(engine_.inputs_ready());
  }
  void forward() {
    for (std::uint64_t i = 0; i < kLayers; ++i) {
      run_op(kFirst + i, *activations_[i], Access::kWrite);
      said_[i] = activations_[i]->record->next_use.load();
    }
  }
  /// In `lane`, or, null, in a lane of the thread's own.
  void backward_on_another_thread(const std::shared_ptr<Lane>& lane) {
    std::thread([&] {
      engine_.join_lane(lane);
      for (std::uint64_t i = kLayers; i-- != 0;) {
        run_op(kSecond + i, *activations_[i], Access::kRead);
        used_[i] = activations_[i]->record->last_use.load();
      }
    }).join();
  }
  void learn(const std::shared_ptr<Lane>& lane) {
    for (int step = 0; step < kStepsToLearn; ++step) {
      forward();
      backward_on_another_thread(lane);
    }
  }

  static constexpr std::uint64_t kFirst = 1'000;
  static constexpr std::uint64_t kSecond = 2'000;
  std::vector<FakeStorage*> activations_;
  std::vector<std::uint64_t> said_ = std::vector<std::uint64_t>(kLayers);  // clock of the next use
  std::vector<std::uint64_t> used_ = std::vector<std::uint64_t>(kLayers);  // and when it came
};

TEST_F(LaneTest, ForwardAndBackwardOnTwoThreadsAreOneStep) {
  const std::shared_ptr<Lane> lane = engine_.share_lane();
  learn(lane);
  EXPECT_EQ(lane->period(), 2 * kLayers);
  const std::uint64_t steps = engine_.steps();
  forward();
  backward_on_another_thread(lane);
  EXPECT_EQ(engine_.steps(), steps + 1);
  EXPECT_EQ(said_, used_) << "each op of the forward pass knows when the backward pass needs what "
                             "it made";
}

TEST_F(LaneTest, OpsOfAThreadThatDidNotJoinAreNoPartOfTheStep) {
  const std::shared_ptr<Lane> lane = engine_.share_lane();
  learn(nullptr);
  EXPECT_EQ(lane->period(), kLayers);
  forward();
  backward_on_another_thread(nullptr);
  EXPECT_NE(said_, used_);
}

//   main thread   f0          f1          f2     ..    its step has 40 ops, in which the clock
//   another          o  o  o     o  o  o     o   ..    goes 160 ticks
TEST_F(LaneTest, NextUsesAreTimesOfTheClockThatAllThreadsAdvance) {
  constexpr std::uint64_t kOthers = 3;
  const std::shared_ptr<Lane> lane = engine_.share_lane();
  const FakeStorage& foreign = *make(kBytes, kLayers);
  for (int step = 0; step < 2 * kStepsToLearn; ++step) {
    for (std::uint64_t i = 0; i < kLayers; ++i) {
      run_op(kFirst + i, *activations_[i], Access::kWrite);
      used_[i] = activations_[i]->record->last_use.load();
      if (step == 2 * kStepsToLearn - 1) {
        EXPECT_EQ(said_[i], used_[i]) << i;
      }
      said_[i] = activations_[i]->record->next_use.load();
      std::thread([&] {
        for (std::uint64_t o = 0; o < kOthers; ++o) run_op(7 * i + o, foreign, Access::kRead);
      }).join();
    }
  }
  EXPECT_EQ(lane->period(), kLayers);
  Lane::Outlook outlook(*lane);
  EXPECT_EQ(outlook.ops_in((1 + kOthers) * 10), 10U);
}

// As an allocation of the backward pass does, whose memory had to be made ready.
TEST_F(LaneTest, WhatWasOpenedForAnOpIsKnownBeforeItComesAgain) {
  const std::shared_ptr<Lane> lane = engine_.share_lane();
  const auto opened_ahead = [&] { return Lane::Outlook(*lane).opened(10); };
  const auto pass = [&](std::uint64_t opens) {
    std::vector<std::vector<Bytes>> seen;
    for (std::uint64_t i = 0; i < kLayers; ++i) {
      run_op(kFirst + i, *activations_[i], Access::kWrite);
      seen.push_back(opened_ahead());
      if (i == opens) lane->note_opened({7});
    }
    return seen;
  };
  for (int step = 0; step < kStepsToLearn; ++step) pass(20);
  const auto known = pass(30);
  EXPECT_EQ(known[9], std::vector<Bytes>{});
  EXPECT_EQ(known[10], std::vector<Bytes>{{7}}) << "ten ops ahead";
  EXPECT_EQ(known[19], std::vector<Bytes>{{7}});
  EXPECT_EQ(known[20], std::vector<Bytes>{}) << "the op itself has it by then";
  EXPECT_EQ(pass(30)[25], std::vector<Bytes>{{7}}) << "as in the latest pass";
}

TEST_F(LaneTest, PinsStayWithTheThread) {
  const std::shared_ptr<Lane> lane = engine_.share_lane();
  const FakeStorage& mine = *activations_[0];
  {
    FakeOp op(engine_, kFirst);
    ASSERT_TRUE(op.read(mine));
    backward_on_another_thread(lane);
    EXPECT_EQ(mine.record->pins.load(), 1U)
        << "the other thread's ops have ended, this one has not";
  }
  EXPECT_EQ(mine.record->pins.load(), 0U);
}

TEST_F(LaneTest, AThreadIsInItsOwnLaneAgainOnceItLeaves) {
  const std::shared_ptr<Lane> lane = engine_.share_lane();
  learn(lane);
  std::thread([&] {
    engine_.join_lane(lane);
    engine_.join_lane(nullptr);
    run_op(7, *activations_[0], Access::kRead);
  }).join();
  for (int step = 0; step < 2; ++step) {  // op 7 is in the pace of the first
    forward();
    backward_on_another_thread(lane);
  }
  EXPECT_EQ(lane->period(), 2 * kLayers);
  EXPECT_EQ(said_, used_) << "op 7 was no op of the step";
}

}  // namespace
}  // namespace spillway::runtime
