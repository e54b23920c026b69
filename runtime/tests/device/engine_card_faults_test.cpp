// SPDX-License-Identifier: Apache-2.0
// The engine over a card that is stopped, forked, refused, filled by others or lost.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <future>
#include <string>
#include <vector>

#include "engine_card_fixture.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;
using spillway::testing::DeviceCall;
using spillway::testing::HeldStream;
using spillway::testing::ThreadDevice;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

//   one     [held] writes all                   release
//   thread         make: copies out are under way, and wait ...
//   stop                    ...                 brings all back
TEST_F(EngineCardTest, StopsWithCopiesUnderWay) {
  start();
  fill(4);
  HeldStream held(device_, one_);
  auto made = make_behind_writes();
  auto stopped = std::async(std::launch::async, [this] { engine_->stop(); });
  stopped.wait_for(kAWhile);
  held.release();
  stopped.get();
  storages_.push_back(made.get());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(read(at(i), two_), 10 + i);
  const Statistics statistics = engine_->statistics();
  EXPECT_EQ(statistics.host + statistics.disk, Bytes{0});
}

TEST_F(EngineCardTest, AChildHasNoUseOfTheCardAndTheParentGoesOn) {
  start();
  fill(8);
  engine_->before_fork();
  const pid_t child = ::fork();
  if (child == 0) {
    engine_->after_fork_in_child();
    bool right = !engine_->use(*storages_[0]->record, Access::kRead);
    try {
      engine_->allocate(kStorage.count);
      right = false;
    } catch (const OutOfBudget& error) {
      right = right && std::string(error.what()).find("no use of the device") != std::string::npos;
    }
    engine_->free(storages_[7]->pointer);
    ::_exit(right ? 0 : 1);
  }
  engine_->after_fork_in_parent();
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  expect_all_intact(two_);
  expect_budget_held();
}

TEST_F(EngineCardTest, ACopyOutThatIsRefusedLosesNothing) {
  start();
  device_.fail(DeviceCall::kCopyOut, 1, ThreadDevice::kInvalid);
  fill(8);
  EXPECT_EQ(engine_->statistics().moves.failed_copies, 1U);
  expect_all_intact(two_);
  expect_budget_held();
}

TEST_F(EngineCardTest, ACopyInThatIsRefusedIsSaidAndCanBeTriedAgain) {
  start();
  fill(8);
  device_.fail(DeviceCall::kCopyIn, 1, ThreadDevice::kInvalid);
  EXPECT_EQ(read(*storages_[0], one_), -1);
  EXPECT_THAT(Engine::last_failure(), HasSubstr("refused the copy"));
  EXPECT_EQ(read(*storages_[0], one_), 0);
  expect_all_intact(two_);
}

TEST_F(EngineCardTest, WithoutPageLockingItGoesOnAndSaysWhy) {
  device_.fail(DeviceCall::kRegisterHost, 1, ThreadDevice::kNotPermitted, true);
  start();
  fill(8);
  expect_all_intact(two_);
  EXPECT_THAT(tiers_->host().refusal(), HasSubstr("could not be page-locked"));
}

TEST_F(EngineCardTest, WithoutPageLockingTheUserIsTold) {
  // Another error than elsewhere: each text is said once.
  device_.fail(DeviceCall::kRegisterHost, 1, ThreadDevice::kInvalid, true);
  ::testing::internal::CaptureStderr();
  start();
  fill(8);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("could not be page-locked"));
}

TEST_F(EngineCardTest, ACardThatSaysNothingIsWaitedForAndToldOf) {
  start();
  fill(4);
  HeldStream held(device_, one_);
  ::testing::internal::CaptureStderr();
  arm_faults("wait.silence=EIO@1");
  auto made = make_behind_writes();
  held.release();
  storages_.push_back(made.get());
  const std::string said = ::testing::internal::GetCapturedStderr();
  // Whether a stream is behind yet depends on how far the held one has come.
  EXPECT_THAT(
      said, ContainsRegex("the device( \\((; |stream 0x[0-9a-f]+ is before tick [0-9]+)+\\))? has "
                          "ended no copy, of [0-9]+ to or from memory"));
  EXPECT_THAT(said, HasSubstr("for 30 s, and ops wait for it"));
  EXPECT_EQ(read(at(4), two_), 4);
}

//   another program takes all that is free of the card, and later gives it back
TEST_F(EngineCardTest, WhatAnotherProgramTakesOfTheCardLeavesLessButLosesNothing) {
  start();
  fill(2);
  std::vector<PagesHandle> others;
  for (PagesHandle taken{}; device_.create(kGranule, taken).done();) others.push_back(taken);
  for (int value = 2; value < 8; ++value) storages_.push_back(make(value, one_));
  for (const DeviceStream stream : {one_, two_}) expect_all_intact(stream);
  EXPECT_EQ(device_.used(), kCard);
  for (const PagesHandle taken : others) EXPECT_TRUE(device_.release(taken).done());
  for (int value = 8; value < 12; ++value) storages_.push_back(make(value, two_));
  expect_all_intact(one_);
  expect_budget_held();
}

//   others hold the card's memory: the budget has room that the card has not
TEST_F(EngineCardTest, WhatOthersHoldOfTheCardIsMadeRoomFor) {
  start();
  fill(2);
  device_.fail(DeviceCall::kCreate, 1, ThreadDevice::kOutOfMemory);
  storages_.push_back(make(2, two_));
  EXPECT_GE(engine_->statistics().moves.evictions, 1U);
  expect_all_intact(one_);
}

TEST_F(EngineCardTest, WithMemoryAndDiskFullItSaysSoAndLosesNothing) {
  Settings wanted = settings(Mode::kEnforce, kScarce);
  wanted.disk_budget = bytes(kMiB);
  engine_->start(wanted);
  try {
    fill(16);
    FAIL() << "there is room for twelve";
  } catch (const OutOfBudget& error) {
    EXPECT_THAT(error.what(), HasSubstr(to_string(kStorage)));
    EXPECT_THAT(error.what(), HasSubstr("SPILLWAY_DISK_BUDGET"));
  }
  EXPECT_GE(storages_.size(), 8U);
  EXPECT_LE(device_.used(), kBudget);
}

TEST_F(EngineCardTest, ADiskThatCannotBeWrittenLosesNothing) {
  start(Mode::kEnforce, kScarce);
  arm_faults("spool.write=EIO@1+");
  EXPECT_THROW(fill(16), OutOfBudget);
  EXPECT_GE(engine_->statistics().moves.failed_copies, 1U);
  arm_faults("");
  expect_all_intact(two_);
  expect_budget_held();
}

TEST_F(EngineCardTest, ADiskThatCannotBeReadIsSaidAndCanBeTriedAgain) {
  start(Mode::kEnforce, kScarce);
  fill(16);
  arm_faults("spool.read=EIO@1+");
  bool failed = false;
  for (int i = 0; i < 16; ++i) {
    const int seen = read(at(i), one_);
    failed = failed || seen == -1;
    EXPECT_TRUE(seen == i || seen == -1) << seen;
  }
  EXPECT_TRUE(failed);
  EXPECT_FALSE(Engine::last_failure().empty());
  arm_faults("");
  expect_all_intact(two_);
}

TEST_F(EngineCardTest, ADeviceThatRefusesMemoryIsNamedAndNotTheBudget) {
  start();
  device_.fail(DeviceCall::kMap, 1, ThreadDevice::kOutOfMemory, true);
  try {
    make(1, one_);
    FAIL();
  } catch (const OutOfBudget& error) {
    EXPECT_THAT(error.what(), HasSubstr("the device refuses memory"));
    EXPECT_THAT(error.what(), HasSubstr("other processes may hold it"));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("SPILLWAY_BUDGET")));
  }
}

TEST_F(EngineCardTest, ALostDeviceEndsInWords) {
  start();
  fill(8);
  device_.lose();
  EXPECT_EQ(read(*storages_[0], one_), -1);
  EXPECT_THAT(Engine::last_failure(), HasSubstr("stand-in card failed while"));
  EXPECT_THAT(Engine::last_failure(), HasSubstr("start it again"));
  EXPECT_THROW(engine_->allocate(kStorage.count), UserError);
  engine_->stop();
}

TEST_F(EngineCardTest, ADeviceThatIsLostBeforeStopEndsInWords) {
  start();
  fill(8);
  device_.lose();
  engine_->stop();
  EXPECT_THAT(Engine::last_failure(), HasSubstr("stand-in card failed while"));
  EXPECT_NE(state(*storages_[0]), ResidencyState::kResident);
}

TEST_F(EngineCardTest, ALostDeviceMakesNobodyWaitForOpsThatNobodySaw) {
  start();
  fill(1);
  engine_->set_blind(true);
  device_.lose();
  EXPECT_FALSE(engine_->prepare_for_unseen_ops());
  EXPECT_FALSE(engine_->wait_for_unseen_ops());
  engine_->set_blind(false);
}

//   one     [held] writes all                   the card is lost
//   thread         make: waits for copies ...   an error, in words
TEST_F(EngineCardTest, WhoWaitsForALostDeviceIsToldSo) {
  start();
  fill(4);
  HeldStream held(device_, one_);
  auto made = begin_behind_writes([this]() -> std::string {
    try {
      engine_->free(engine_->allocate(kStorage.count));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  });
  device_.lose();
  held.release();
  EXPECT_THAT(made.get(), HasSubstr("failed"));
}

}  // namespace
}  // namespace spillway::runtime
