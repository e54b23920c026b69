// SPDX-License-Identifier: Apache-2.0
// The engine over a card, page-locked memory and disk. The card is a stand-in (ThreadDevice), so
// that a test can hold its streams back, and make its calls fail.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "spillway/base/fault.hpp"
#include "spillway/runtime/exec/card_tiers.hpp"
#include "spillway/runtime/exec/engine.hpp"
#include "spillway/testing/device/forwarding_driver.hpp"
#include "spillway/testing/device/held_stream.hpp"
#include "spillway/testing/device/thread_device.hpp"
#include "spillway/testing/fake_framework.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;
using spillway::testing::DeviceCall;
using spillway::testing::drop_storage;
using spillway::testing::FakeFramework;
using spillway::testing::FakeOp;
using spillway::testing::FakeStorage;
using spillway::testing::HeldStream;
using spillway::testing::ThreadDevice;
using ::testing::HasSubstr;

constexpr Bytes kGranule{std::uint64_t{64} << 10};
constexpr Bytes kStorage = kGranule * 4;
constexpr Bytes kBudget = kStorage * 4;
constexpr Bytes kCard = kStorage * 32;
constexpr Bytes kAmple = kMiB * 64;
constexpr Bytes kScarce = kMiB;  // four storages
constexpr auto kAWhile = std::chrono::milliseconds(20);

BudgetSpec bytes(Bytes amount) { return {.kind = BudgetSpec::Kind::kBytes, .bytes = amount}; }

class EngineCardTest : public ::testing::Test {
 public:
  ~EngineCardTest() override {
    arm_faults("");
    while (!storages_.empty()) drop(storages_.back());
    renew_this_thread_frames();
    engine_->stop();
    engine_->statistics();  // takes note of what died
    engine_.reset();
    EXPECT_THAT(device_.complaints(), ::testing::IsEmpty());
    EXPECT_EQ(framework_.released.load(), made_);
  }

 protected:
  static Settings settings(Mode mode = Mode::kEnforce, Bytes host = kAmple) {
    Settings result;
    result.budget = bytes(kBudget);
    result.host_budget = bytes(host);
    result.disk_budget = bytes(kMiB * 64);
    result.spool_dir = ::testing::TempDir();
    result.mode = mode;
    return result;
  }
  void start(Mode mode = Mode::kEnforce, Bytes host = kAmple) {
    engine_->start(settings(mode, host));
  }

  DeviceStream stream() {
    DeviceStream made{};
    EXPECT_TRUE(device_.create_stream(made).done());
    return made;
  }
  static DeviceAddress address(const FakeStorage& storage) {
    return device_address(storage.pointer);
  }
  void enqueue_fill(const FakeStorage& storage, DeviceStream stream, int value) {
    EXPECT_TRUE(device_.fill(address(storage), std::byte(value), {storage.bytes}, stream).done());
  }

  /// As a program must, where its own work on one stream comes after that on the other.
  void order_after_the_other(DeviceStream stream) {
    DeviceEvent event{};
    ASSERT_TRUE(device_.create_event(EventTiming::kNo, event).done());
    ASSERT_TRUE(device_.record(event, stream == one_ ? two_ : one_).done());
    ASSERT_TRUE(device_.stream_wait(stream, event).done());
    ASSERT_TRUE(device_.destroy_event(event).done());
  }

  /// In an op of its own, every byte of that value.
  FakeStorage* make(int value, DeviceStream stream, Bytes size = kStorage) {
    engine_->on_stream(stream);
    const FakeOp op(*engine_);
    auto storage = std::make_unique<FakeStorage>();
    storage->pointer = engine_->allocate(size.count);
    storage->bytes = size.count;
    storage->record = engine_->find(storage->pointer);
    enqueue_fill(*storage, stream, value);
    engine_->produced(*storage->record);
    engine_->bind(*storage->record, storage.get(), storage.get());
    ++made_;
    return storage.release();
  }
  void fill(int count) {
    for (int value = 0; value < count; ++value) storages_.push_back(make(value, one_));
  }
  /// Four storages that fill the budget are written, on the first stream, which is held; `work`,
  /// which needs the room of one, has to wait.
  template <class Work>
  auto begin_behind_writes(Work work) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(write(at(i), 10 + i, one_));
    { const FakeOp next(*engine_); }
    auto done = std::async(std::launch::async, std::move(work));
    EXPECT_EQ(done.wait_for(kAWhile), std::future_status::timeout);
    return done;
  }
  std::future<FakeStorage*> make_behind_writes() {
    return begin_behind_writes([this] { return make(4, two_); });
  }
  bool write(const FakeStorage& storage, int value, DeviceStream stream) {
    engine_->on_stream(stream);
    FakeOp op(*engine_);
    if (!op.write(storage) || !engine_->inputs_ready()) return false;
    order_after_the_other(stream);
    enqueue_fill(storage, stream, value);
    return true;
  }
  /// The value of all its bytes; -1: it cannot be had, -2: they differ.
  int read(const FakeStorage& storage, DeviceStream stream) {
    int seen = -1;
    {
      engine_->on_stream(stream);
      FakeOp op(*engine_);
      if (!op.read(storage) || !engine_->inputs_ready()) return -1;
      order_after_the_other(stream);
      const auto look = [&seen, count = storage.bytes](std::span<std::byte* const> at) {
        seen = static_cast<int>(at[0][0]);
        for (std::uint64_t i = 0; i < count; ++i) {
          if (at[0][i] != at[0][0]) seen = -2;
        }
      };
      EXPECT_TRUE(device_.launch(stream, {{address(storage), {storage.bytes}}}, look).done());
    }
    EXPECT_TRUE(device_.synchronize_stream(stream).done());
    return seen;
  }
  [[nodiscard]] FakeStorage& at(int index) const {
    return *storages_[static_cast<std::size_t>(index)];
  }
  void expect_all_intact(DeviceStream stream) {
    for (int i = 0; i < std::ssize(storages_); ++i) {
      EXPECT_EQ(read(at(i), stream), i) << Engine::last_failure();
    }
  }
  void expect_budget_held() {
    const Statistics statistics = engine_->statistics();
    EXPECT_LE(statistics.peak_device, kBudget);
    EXPECT_EQ(statistics.overshoot, Bytes{0});
    EXPECT_LE(device_.used(), kBudget) << "the driver's own count";
  }
  void drop(FakeStorage* storage) {
    std::erase(storages_, storage);
    drop_storage(*engine_, storage);
  }
  static ResidencyState state(const FakeStorage& storage) { return storage.record->state.load(); }

  ThreadDevice device_{{.memory = kCard, .granule = kGranule.count, .longest_delay_us = 50}};
  DeviceStream one_ = stream();
  DeviceStream two_ = stream();
  FakeFramework framework_;
  std::uint64_t made_ = 0;
  CardTiers* tiers_ = new CardTiers(  // the engine's
      std::make_unique<spillway::testing::ForwardingDriver>(device_),
      {.addresses = kMiB * 256, .slab = kMiB, .chunk = kGranule, .ticks = {}});
  std::unique_ptr<Engine> engine_ =
      std::make_unique<Engine>(framework_, std::unique_ptr<TierSet>(tiers_));
  std::vector<FakeStorage*> storages_;
};

// ---- Moving -------------------------------------------------------------------------------------

struct Below {
  const char* name;
  Mode mode;
  Bytes host;
};

class EngineCardModesTest : public EngineCardTest, public ::testing::WithParamInterface<Below> {};

TEST_P(EngineCardModesTest, WhatDoesNotFitComesBackWithItsBytes) {
  start(GetParam().mode, GetParam().host);
  fill(16);  // four times the budget
  expect_budget_held();
  const Statistics filled = engine_->statistics();
  EXPECT_GE(filled.host + filled.disk, kStorage * 12);
  EXPECT_LE(filled.host, GetParam().host);
  if (GetParam().host == kScarce) {
    EXPECT_GE(filled.disk, kStorage * 8);
  }
  for (const DeviceStream stream : {one_, two_, one_}) expect_all_intact(stream);
  expect_budget_held();
  EXPECT_GE(engine_->statistics().moves.fetches, 3 * (16 - 4U)) << "the card holds four";
  // To verify is to look, which copies into memory of its own.
  if (GetParam().mode != Mode::kVerify) {
    EXPECT_EQ(device_.pageable_copies(), 0U) << "none held the program up";
  }
}

TEST_P(EngineCardModesTest, EveryTierIsGivenBackWhatDied) {
  start(GetParam().mode, GetParam().host);
  for (int round = 0; round < 3; ++round) {
    fill(16);
    while (!storages_.empty()) drop(storages_.back());
    const auto held = [this] {
      tiers_->host().settle();
      const Statistics statistics = engine_->statistics();
      return statistics.host + statistics.disk + tiers_->host().used();
    };
    while (held() != Bytes{0}) std::this_thread::yield();
    EXPECT_EQ(engine_->statistics().storages, 0U);
  }
  expect_budget_held();
}

TEST_P(EngineCardModesTest, StoppingBringsEverythingBack) {
  start(GetParam().mode, GetParam().host);
  fill(16);
  engine_->stop();
  const Statistics statistics = engine_->statistics();
  EXPECT_EQ(statistics.host + statistics.disk, Bytes{0});
  EXPECT_GE(device_.used(), kStorage * 16);
  for (const FakeStorage* storage : storages_) EXPECT_TRUE(storage->accessible.load());
  expect_all_intact(two_);
}

INSTANTIATE_TEST_SUITE_P(EngineCard, EngineCardModesTest,
                         ::testing::Values(Below{"Enforce", Mode::kEnforce, kAmple},
                                           Below{"EnforceWithADisk", Mode::kEnforce, kScarce},
                                           Below{"Fuzz", Mode::kFuzz, kAmple},
                                           Below{"FuzzWithADisk", Mode::kFuzz, kScarce},
                                           Below{"Verify", Mode::kVerify, kAmple},
                                           Below{"VerifyWithADisk", Mode::kVerify, kScarce}),
                         [](const auto& below) { return std::string(below.param.name); });

TEST_F(EngineCardTest, WhatIsOnlyReadIsCopiedOutOnce) {
  start();
  fill(8);
  expect_all_intact(one_);
  const std::uint64_t evictions = engine_->statistics().moves.evictions;
  EXPECT_EQ(evictions, 8U);
  for (int round = 0; round < 3; ++round) expect_all_intact(two_);
  EXPECT_EQ(engine_->statistics().moves.evictions, evictions);
}

TEST_F(EngineCardTest, AWriteMakesTheCopyStale) {
  start();
  fill(8);
  ASSERT_EQ(read(*storages_[0], one_), 0);  // its copy stays
  ASSERT_TRUE(write(*storages_[0], 100, two_));
  for (int i = 1; i < 8; ++i) EXPECT_EQ(read(at(i), two_), i);
  EXPECT_NE(state(*storages_[0]), ResidencyState::kResident);
  EXPECT_EQ(read(*storages_[0], one_), 100);
}

TEST_F(EngineCardTest, WhatIsKeptStays) {
  start();
  fill(1);
  ASSERT_TRUE(engine_->keep(*storages_[0]->record));
  for (int i = 1; i < 8; ++i) storages_.push_back(make(i, one_));
  EXPECT_EQ(state(*storages_[0]), ResidencyState::kResident);
  engine_->release(*storages_[0]->record);
  for (int i = 1; i < 8; ++i) EXPECT_EQ(read(at(i), one_), i);
  EXPECT_NE(state(*storages_[0]), ResidencyState::kResident);
}

TEST_F(EngineCardTest, AShareOfTheCardIsABudget) {
  Settings wanted = settings();
  wanted.budget = BudgetSpec{.kind = BudgetSpec::Kind::kPercent, .percent = 25};
  engine_->start(wanted);
  EXPECT_EQ(engine_->budget(), Bytes{kCard.count / 4});
}

TEST_F(EngineCardTest, WhatIsLargerThanTheBudgetIsRefusedInWords) {
  start();
  fill(2);
  try {
    make(1, one_, kBudget + kGranule);
    FAIL() << "it fits nowhere";
  } catch (const OutOfBudget& error) {
    EXPECT_THAT(error.what(), HasSubstr(to_string(kBudget + kGranule)));
  }
  expect_all_intact(one_);
}

TEST_F(EngineCardTest, AWriteThatNoOpDeclaresIsFound) {
  start(Mode::kVerify);
  fill(8);
  ASSERT_EQ(read(*storages_[0], one_), 0);
  {
    FakeOp op(*engine_);
    ASSERT_TRUE(op.read(*storages_[0]));
    enqueue_fill(*storages_[0], one_, 100);
  }
  for (int i = 1; i < 8; ++i) EXPECT_EQ(read(at(i), one_), i);
  EXPECT_EQ(engine_->statistics().moves.undeclared_writes, 1U);
  EXPECT_EQ(read(*storages_[0], one_), 100);
}

// ---- Streams ------------------------------------------------------------------------------------

//   one    [held] writes a                     release
//   two           make: evicts; pages of what is evicted are not yet to be had ... are
TEST_F(EngineCardTest, AnAllocationWaitsForPagesThatTheCardStillUses) {
  start();
  fill(4);
  HeldStream held(device_, one_);
  auto made = make_behind_writes();
  held.release();
  storages_.push_back(made.get());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(read(at(i), two_), 10 + i);
  EXPECT_EQ(read(*storages_[4], one_), 4);
  expect_budget_held();
}

//   one    [held] writes a | a dies | makes b: the same memory, at once
TEST_F(EngineCardTest, WhatAStreamFreedItHasAgainWithoutWaiting) {
  start();
  fill(4);
  HeldStream held(device_, one_);
  ASSERT_TRUE(write(*storages_[0], 10, one_));
  std::byte* const was_at = storages_[0]->pointer;
  drop(storages_[0]);
  storages_.push_back(make(20, one_));
  EXPECT_EQ(storages_.back()->pointer, was_at);
  EXPECT_EQ(engine_->statistics().moves.evictions, 0U);
  held.release();
  EXPECT_EQ(read(*storages_.back(), two_), 20);
}

TEST_F(EngineCardTest, FreedMemoryIsNobodysBeforeTheWorkOfARecordedStream) {
  start();
  fill(1);
  HeldStream held(device_, two_);
  engine_->record_stream(at(0).pointer, two_);
  enqueue_fill(at(0), two_, 10);
  drop(storages_[0]);
  storages_.push_back(make(20, one_));
  held.release();
  EXPECT_EQ(read(*storages_.back(), one_), 20);
}

TEST_F(EngineCardTest, TellsTheLiveBytesWithoutWhatWasFreed) {
  start();
  fill(2);
  drop(storages_[0]);
  engine_->statistics();
  EXPECT_EQ(engine_->live_now(), kStorage);
}

//   two    [held] writes a, by an address that was given away
//   one           makes others: a leaves after that
TEST_F(EngineCardTest, AnAddressGivenAwayMayBeUsedOnAnyStream) {
  start();
  fill(4);
  engine_->on_stream(two_);  // the engine knows of it
  engine_->on_stream(one_);
  { const FakeOp next(*engine_); }
  ASSERT_TRUE(engine_->give_address(*storages_[0]->record));
  order_after_the_other(two_);
  HeldStream held(device_, two_);
  enqueue_fill(*storages_[0], two_, 77);
  auto made = std::async(std::launch::async, [this] {
    for (int i = 4; i < 7; ++i) storages_.push_back(make(i, one_));
  });
  made.get();  // the others leave first: the address is good until the next op
  EXPECT_EQ(state(*storages_[0]), ResidencyState::kResident);
  { const FakeOp next(*engine_); }
  auto more = std::async(std::launch::async, [this] {
    for (int i = 7; i < 11; ++i) storages_.push_back(make(i, one_));
  });
  more.wait_for(kAWhile);
  held.release();
  more.get();
  EXPECT_NE(state(*storages_[0]), ResidencyState::kResident);
  EXPECT_EQ(read(*storages_[0], one_), 77);
}

//   thread A   op 1 .. op 12                1 .. 12           a step of 20 ops
//   thread B                 op 13 .. op 20         13 .. 20
TEST_F(EngineCardTest, ThreadsOfACardAreInOneLane) {
  start();
  const auto ops = [this](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i <= last; ++i) const FakeOp op(*engine_, i);
  };
  for (int step = 0; step < 20; ++step) {
    ops(1, 12);
    std::async(std::launch::async, ops, 13, 20).get();
  }
  EXPECT_EQ(engine_->share_lane()->period(), 20U);
}

// ---- Stopping, forking, failing -----------------------------------------------------------------

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
  EXPECT_THAT(said, HasSubstr("the device has ended no copy"));
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
