// SPDX-License-Identifier: Apache-2.0
// The engine over a card: what moves, and the order of its streams.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstdint>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine_card_fixture.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;
using spillway::testing::FakeOp;
using spillway::testing::FakeStorage;
using spillway::testing::HeldStream;
using ::testing::HasSubstr;

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

// Its copies have streams of their own, which are gone with it.
TEST_P(EngineCardModesTest, WhatMovedBeforeItStoppedMovesAgain) {
  for (int round = 0; round < 2; ++round) {
    start(GetParam().mode, GetParam().host);
    if (round == 0) fill(16);
    expect_all_intact(one_);
    engine_->stop();
  }
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

// The limit is 8 MiB on many machines, and no affair of NVIDIA's driver.
TEST_F(EngineCardTest, TheHostBudgetIsAShareOfWhatIsFreeWhateverMayBeLocked) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &none), 0);
  const MachineMemory machine{
      .total = kGiB * 16, .available = kGiB * 10, .ours = {}, .local_processes = 2};
  EXPECT_EQ(tiers_->usual_host_budget(machine), kGiB * 3);
  ::setrlimit(RLIMIT_MEMLOCK, &before);
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

TEST_F(EngineCardTest, TheBudgetCoversWhatTheProcessHoldsBesides) {
  start();
  fill(4);
  engine_->set_unmanaged(kStorage * 2);
  EXPECT_LE(device_.used(), kBudget - kStorage * 2) << "the driver's own count";
  const Statistics now = engine_->statistics();
  EXPECT_EQ(now.budget, kBudget);
  EXPECT_EQ(now.unmanaged, kStorage * 2);
  expect_all_intact(one_);
  EXPECT_LE(device_.used(), kBudget - kStorage * 2);
  try {
    make(4, one_, kStorage * 3);
    FAIL() << "it does not fit beside that";
  } catch (const OutOfBudget& error) {
    EXPECT_EQ(error.facts().have, kStorage * 2);
    EXPECT_EQ(error.facts().smallest_budget, kBudget + kStorage);
    EXPECT_THAT(error.what(), HasSubstr("Of it 512 KiB are the card's context"));
  }
  engine_->set_unmanaged({});
  drop(make(4, one_, kBudget));
  expect_all_intact(two_);
  expect_budget_held();
}

TEST_F(EngineCardTest, RoomIsKeptForWhatIsExpectedUntilAnOpNeedsIt) {
  start();
  fill(4);
  engine_->set_unmanaged(kStorage, kStorage);
  EXPECT_LE(device_.used(), kBudget - kStorage * 2);
  const Statistics now = engine_->statistics();
  EXPECT_EQ(now.unmanaged, kStorage) << "what is expected is not held";
  drop(make(4, one_, kStorage * 3));
  EXPECT_EQ(engine_->statistics().overshoot, Bytes{});
  engine_->set_unmanaged(kStorage, kStorage);
  drop(make(4, one_, kStorage * 3));
  expect_all_intact(one_);
  engine_->set_unmanaged({});
  expect_all_intact(two_);
  expect_budget_held();
}

//   one    [held] writes a, b, c, d             release
//   this          set_unmanaged: what leaves is not yet to be had ... is
TEST_F(EngineCardTest, WaitsForWhatLeavesForOthers) {
  start();
  fill(4);
  HeldStream held(device_, one_);
  auto done = begin_behind_writes([this] { engine_->set_unmanaged(kStorage); });
  held.release();
  done.get();
  EXPECT_LE(device_.used(), kBudget - kStorage);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(read(at(i), two_), 10 + i);
}

TEST_F(EngineCardTest, WhatCannotLeaveForOthersStays) {
  start();
  fill(4);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine_->keep(*at(i).record));
  engine_->set_unmanaged(kStorage);
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

// ---- Recording ----------------------------------------------------------------------------------

//   host   |op 0 op 1 | op 2 ...           each launches and goes on
//   card     [ 10 ms ]     [ 20 ms ]
TEST_F(EngineCardTest, ARecordedOpTakesWhatItTakesOnTheCard) {
  constexpr auto kKernel = std::chrono::milliseconds(10);
  Settings wanted = settings(Mode::kRecord);
  wanted.trace_path = ::testing::TempDir() + "card-step.json";
  engine_->start(wanted);
  engine_->on_stream(one_);
  const auto op = [&](int kernels, bool boundary) {
    const FakeOp open(*engine_, 0, boundary);
    for (int i = 0; i < kernels; ++i) {
      EXPECT_TRUE(
          device_.launch(one_, {}, [=](auto) { std::this_thread::sleep_for(kKernel); }).done());
    }
  };
  for (int step = 0; step < 3; ++step) {
    op(1, true);
    op(0, false);
    op(2, false);
  }
  op(0, true);  // so that the step before is complete
  const auto trace = engine_->trace();
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->ops.size(), 3U);
  const TimeNs kernel = std::chrono::nanoseconds(kKernel).count();
  EXPECT_GE(trace->ops.duration_ns[0], kernel);
  EXPECT_LT(trace->ops.duration_ns[1], kernel);
  EXPECT_GE(trace->ops.duration_ns[2], kernel * 2);
}

//   one    op 0 [ 10 ms ]
//   two                      the thread goes on there, within op 0
TEST_F(EngineCardTest, ARecordedOpIsTimedOnTheStreamThatItBeganOn) {
  constexpr auto kKernel = std::chrono::milliseconds(10);
  Settings wanted = settings(Mode::kRecord);
  wanted.trace_path = ::testing::TempDir() + "card-step.json";
  engine_->start(wanted);
  engine_->on_stream(one_);
  {
    const FakeOp open(*engine_);
    EXPECT_TRUE(
        device_.launch(one_, {}, [=](auto) { std::this_thread::sleep_for(kKernel); }).done());
    engine_->on_stream(two_);
  }
  const auto trace = engine_->trace();
  ASSERT_TRUE(trace);
  EXPECT_GE(trace->ops.duration_ns[0], std::chrono::nanoseconds(kKernel).count());
}

TEST_F(EngineCardTest, WhatIsUnmanagedOnACardIsNotTheProcesssOwnMemory) {
  start();
  EXPECT_EQ(engine_->statistics().unmanaged, Bytes{}) << "nobody has said";
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
  order_after_the_other(two_);
  engine_->record_stream(at(0).pointer, two_);
  enqueue_fill(at(0), two_, 10);
  drop(storages_[0]);
  storages_.push_back(make(20, one_));
  held.release();
  EXPECT_EQ(read(*storages_.back(), one_), 20);
}

//   one    [held] writes a, which then is dead                     release
//   host                                     the peak begins anew
TEST_F(EngineCardTest, APeakBeginsAnewWithoutWaitingForTheCard) {
  start();
  fill(2);
  HeldStream held(device_, one_);
  ASSERT_TRUE(write(at(0), 10, one_));
  { const FakeOp next(*engine_); }
  drop(storages_[0]);
  auto reset = std::async(std::launch::async, [this] { engine_->reset_peak(); });
  EXPECT_EQ(reset.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  held.release();
  reset.get();
  EXPECT_EQ(engine_->statistics().peak_live, kStorage);
}

// Copies into the card begin late.
class LateCopies final : public spillway::testing::ForwardingDriver {
 public:
  explicit LateCopies(spillway::testing::ThreadDevice& device)
      : ForwardingDriver(device), device_(device) {}
  DeviceStatus copy_in(DeviceAddress to, const std::byte* from, Bytes bytes,
                       DeviceStream stream) override {
    EXPECT_TRUE(
        device_.launch(stream, {}, [](auto) { std::this_thread::sleep_for(kAWhile); }).done());
    return ForwardingDriver::copy_in(to, from, bytes, stream);
  }

 private:
  spillway::testing::ThreadDevice& device_;
};

//   in     [late] a                      the op takes memory for work of `two` before it uses a
//   one             reads a
TEST_F(EngineCardTest, MemoryForAnotherStreamLeavesAnOpOnItsOwn) {
  engine_ = std::make_unique<Engine>(
      framework_,
      std::make_unique<CardTiers>(
          std::make_unique<LateCopies>(device_),
          CardOptions{.addresses = kMiB * 256, .slab = kMiB, .chunk = kGranule, .ticks = {}}));
  start();
  fill(8);
  ASSERT_NE(state(at(0)), ResidencyState::kResident);
  engine_->on_stream(one_);
  int seen = -1;
  {
    FakeOp op(*engine_);
    std::byte* const other = engine_->allocate(kStorage.count, two_);
    ASSERT_TRUE(op.read(at(0)));
    const auto look = [&seen](std::span<std::byte* const> in) {
      seen = static_cast<int>(in[0][0]);
    };
    EXPECT_TRUE(device_.launch(one_, {{address(at(0)), kStorage}}, look).done());
    engine_->free(other);
  }
  EXPECT_TRUE(device_.synchronize_stream(one_).done());
  EXPECT_EQ(seen, 0);
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

//   two    [held] writes a, in an op that nobody sees
//   one           makes others: a leaves after that
TEST_F(EngineCardTest, NothingLeavesBeforeTheWorkOfOpsThatNobodySaw) {
  start();
  fill(4);
  engine_->set_blind(true);
  ASSERT_TRUE(engine_->prepare_for_unseen_ops());
  order_after_the_other(two_);  // of a stream that the engine has never heard of
  HeldStream held(device_, two_);
  enqueue_fill(at(0), two_, 77);
  auto seen = std::async(std::launch::async, [this] {
    EXPECT_TRUE(engine_->wait_for_unseen_ops());
    engine_->set_blind(false);
    for (int i = 4; i < 8; ++i) storages_.push_back(make(i, one_));
  });
  EXPECT_EQ(seen.wait_for(kAWhile), std::future_status::timeout);
  held.release();
  seen.get();
  EXPECT_NE(state(at(0)), ResidencyState::kResident);
  EXPECT_EQ(read(at(0), one_), 77);
}

//   two    [held] an op that may use anything writes a
//   one           makes others: a leaves after that
TEST_F(EngineCardTest, NothingLeavesBeforeTheWorkOfAnOpWhoseUsesAreUnknown) {
  start();
  fill(4);
  HeldStream held(device_, two_);
  {
    engine_->on_stream(two_);
    const FakeOp op(*engine_);
    const Engine::Reach reach(*engine_);
    enqueue_fill(at(0), two_, 77);
  }
  auto made = std::async(std::launch::async, [this] {
    for (int i = 4; i < 8; ++i) storages_.push_back(make(i, one_));
  });
  made.wait_for(kAWhile);
  held.release();
  made.get();
  EXPECT_NE(state(at(0)), ResidencyState::kResident);
  EXPECT_EQ(read(at(0), one_), 77);
}

//   one    [held] copies and ops that were launched
//   two           may use all of it, in an op that nobody sees
TEST_F(EngineCardTest, OpsThatNobodySeesStartAfterAllThatWasLaunched) {
  start();
  fill(1);
  HeldStream held(device_, one_);
  enqueue_fill(at(0), one_, 10);
  engine_->set_blind(true);
  auto prepared =
      std::async(std::launch::async, [this] { return engine_->prepare_for_unseen_ops(); });
  EXPECT_EQ(prepared.wait_for(kAWhile), std::future_status::timeout);
  held.release();
  EXPECT_TRUE(prepared.get());
  engine_->set_blind(false);
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

}  // namespace
}  // namespace spillway::runtime
