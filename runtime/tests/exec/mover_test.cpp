// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/memory/device_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"
#include "spillway/testing/fake_framework.hpp"
#include "spillway/testing/meant_race.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;
using spillway::testing::FakeStorage;
using Outcome = Mover::Outcome;

constexpr ArenaOptions kSmallArena{.reservation = Bytes{std::uint64_t{1} << 30},
                                   .minimum = Bytes{std::uint64_t{1} << 28},
                                   .colouring = Colouring::kNo};
constexpr std::uint64_t kBytes = 200'000;
constexpr Bytes kPages{200'704};

/// The usual ones, which can be told that nothing more can be begun.
class UnwillingTransfers final : public Transfers {
 public:
  TransferId submit(Transfer transfer, TransferDone done) override {
    if (unwilling) throw UserError("no thread can be started");
    return to_.submit(transfer, std::move(done));
  }
  bool cancel(TransferId id) override { return to_.cancel(id); }
  bool hurry(TransferId id) override { return to_.hurry(id); }
  void drain() override { to_.drain(); }
  void before_fork() override { to_.before_fork(); }
  [[nodiscard]] IoMethod method() const override { return to_.method(); }

  bool unwilling = false;

 private:
  TransferPool to_;
};

class MoverTest : public ::testing::Test {
 public:
  MoverTest() { configure({}); }
  ~MoverTest() override {
    arm_faults("");
    wait();
    while (!mover_.live().empty()) die(*mover_.live().back());
  }

 protected:
  void configure(const MoverOptions& options, Bytes disk_budget = kMiB * 64,
                 const std::string& directory = ::testing::TempDir()) {
    mover_.configure(options, std::make_shared<Spool>(SpoolOptions{directory, disk_budget, {}}));
  }
  FakeStorage& make(std::uint64_t seed) {
    const Allocation made = memory_.allocate({kBytes}, Overbooking::kAllow);
    auto* storage = new FakeStorage;
    storage->pointer = made.pointer;
    storage->bytes = kBytes;
    storage->record = &mover_.create(*made.block, {kBytes});
    storage->record->owner.store(storage);
    storage->fill(seed);
    return *storage;
  }
  void wait() {
    while (mover_.in_flight() != 0) settled_.wait(lock_);
  }
  Bytes evict(FakeStorage& storage) {
    const Bytes leaving = mover_.evict(*storage.record);
    wait();
    return leaving;
  }
  Outcome fetch(FakeStorage& storage, Access access = Access::kRead) {
    for (;;) {
      const auto request = mover_.request(*storage.record, access, Overbooking::kAllow);
      if (request.outcome != Outcome::kPending) return request.outcome;
      settled_.wait(lock_);
    }
  }
  void kill(FakeStorage& storage) { die(*storage.record); }
  void die(StorageRecord& record) {
    mover_.die(record);
    for (void* owner : std::exchange(remains_.owners, {})) framework_.release(owner);
  }
  static ResidencyState state(const FakeStorage& storage) { return storage.record->state.load(); }
  static std::size_t count(const std::vector<FakeStorage*>& storages, ResidencyState wanted) {
    return static_cast<std::size_t>(std::ranges::count_if(
        storages, [&](const FakeStorage* storage) { return state(*storage) == wanted; }));
  }

  std::mutex mutex_;
  std::condition_variable settled_;
  DeviceMemory memory_{kMiB * 64, kSmallArena};
  spillway::testing::FakeFramework framework_;
  Remains remains_;
  HostMemory host_;
  Mover mover_{mutex_, settled_, memory_, host_, framework_, remains_};
  std::unique_lock<std::mutex> lock_{mutex_};
};

TEST_F(MoverTest, GoesToDiskAndComesBack) {
  auto& a = make(1);
  EXPECT_EQ(evict(a), kPages);
  EXPECT_EQ(state(a), ResidencyState::kOnDisk);
  EXPECT_FALSE(a.accessible.load());
  EXPECT_NE(framework_.last_reason().find("spillway.resident"), std::string::npos);
  EXPECT_EQ(memory_.live(), Bytes{0});
  memory_.release_idle();
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(a.accessible.load());
  EXPECT_TRUE(a.holds(1));
  EXPECT_EQ(mover_.statistics().evicted, Bytes{kBytes});
  EXPECT_EQ(mover_.statistics().fetched, Bytes{kBytes});
  EXPECT_EQ(mover_.leaving(), Bytes{0});
  kill(a);
  EXPECT_EQ(mover_.spool()->used_bytes(), Bytes{0});
}

// Nobody tells of the end of a copy that was not begun: who waits for it waits in vain.
TEST_F(MoverTest, AFetchThatCannotBeBegunFailsAtOnce) {
  auto made = std::make_unique<UnwillingTransfers>();
  UnwillingTransfers& transfers = *made;
  mover_.configure({}, nullptr, std::move(made));
  auto& a = make(1);
  evict(a);
  memory_.release_idle();
  transfers.unwilling = true;
  const auto request = mover_.request(*a.record, Access::kRead, Overbooking::kAllow);
  EXPECT_EQ(request.outcome, Outcome::kFailed);
  EXPECT_EQ(mover_.failure(), "no thread can be started");
  EXPECT_EQ(mover_.in_flight(), 0U);
  EXPECT_EQ(state(a), ResidencyState::kOnDisk);
  transfers.unwilling = false;
  EXPECT_EQ(fetch(a), Outcome::kReady) << "it was said once";
  EXPECT_TRUE(a.holds(1));
}

TEST_F(MoverTest, ComesBackWithoutACopyWhileNobodyTookItsPages) {
  auto& a = make(1);
  evict(a);
  arm_faults("spool.read=EIO@1+");
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(a.holds(1));
  EXPECT_EQ(mover_.statistics().recalled, Bytes{kBytes});
  EXPECT_EQ(mover_.statistics().fetched, Bytes{0});
}

TEST_F(MoverTest, VerifyReadsEvenWhatCouldBeRecalled) {
  configure({.host_budget = {}, .verify = true});
  auto& a = make(1);
  evict(a);
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_EQ(mover_.statistics().fetched, Bytes{kBytes});
}

TEST_F(MoverTest, APrefetchThatFailsIsNoErrorOfTheOpThatComesLater) {
  auto& a = make(1);
  evict(a);
  memory_.release_idle();
  arm_faults("spool.read=EIO@1+");
  EXPECT_TRUE(mover_.prefetch(*a.record, this));
  wait();
  EXPECT_EQ(state(a), ResidencyState::kOnDisk);
  arm_faults("");
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(a.holds(1));
}

TEST_F(MoverTest, PrefetchesThatHaveNotStartedAreTakenBack) {
  constexpr std::size_t kMany = 12;  // more than are under way at once
  std::vector<FakeStorage*> storages;
  for (std::size_t i = 0; i < kMany; ++i) storages.push_back(&make(i));
  for (FakeStorage* storage : storages) evict(*storage);
  memory_.release_idle();
  arm_faults("spool.read=delay:20ms@1+");
  for (FakeStorage* storage : storages) EXPECT_TRUE(mover_.prefetch(*storage->record, this));
  EXPECT_EQ(count(storages, ResidencyState::kFetching), kMany);
  mover_.cancel_ahead(&memory_);
  EXPECT_EQ(count(storages, ResidencyState::kFetching), kMany) << "they are of another path";
  mover_.cancel_ahead(this);
  EXPECT_LT(count(storages, ResidencyState::kFetching), kMany);
  wait();
  EXPECT_EQ(count(storages, ResidencyState::kFetching), 0U);
  EXPECT_LT(mover_.statistics().fetches, kMany);
  arm_faults("");
  for (std::size_t i = 0; i < kMany; ++i) {
    EXPECT_EQ(fetch(*storages[i]), Outcome::kReady);
    EXPECT_TRUE(storages[i]->holds(i));
  }
}

TEST_F(MoverTest, WritesBehindThatHaveNotStartedAreTakenBack) {
  constexpr std::size_t kMany = 12;
  std::vector<FakeStorage*> storages;
  for (std::size_t i = 0; i < kMany; ++i) storages.push_back(&make(i));
  arm_faults("spool.write=delay:20ms@1+");
  for (FakeStorage* storage : storages) {
    EXPECT_EQ(mover_.write_behind(*storage->record, this), kPages);
  }
  auto& demanded = make(kMany);
  EXPECT_EQ(mover_.evict(*demanded.record), kPages);
  mover_.cancel_ahead(this);
  const std::size_t started = count(storages, ResidencyState::kEvicting);
  EXPECT_LT(started, kMany);
  EXPECT_EQ(count(storages, ResidencyState::kResident), kMany - started);
  EXPECT_EQ(mover_.leaving(), Bytes{(started + 1) * kPages.count}) << "the demanded one goes on";
  EXPECT_EQ(mover_.failures_in_a_row(), 0U) << "nothing failed";
  wait();
  EXPECT_EQ(mover_.spool()->used_bytes(), Bytes{(started + 1) * kPages.count});
  arm_faults("");
  for (std::size_t i = 0; i < kMany; ++i) {
    EXPECT_EQ(fetch(*storages[i]), Outcome::kReady);
    EXPECT_TRUE(storages[i]->holds(i));
  }
}

TEST_F(MoverTest, WhatWasOnlyReadLeavesWithoutACopy) {
  auto& a = make(1);
  evict(a);
  fetch(a);
  EXPECT_EQ(evict(a), kPages);
  EXPECT_EQ(mover_.statistics().evictions, 1U);
  EXPECT_EQ(mover_.statistics().clean_evicted, Bytes{kBytes});
  fetch(a, Access::kWrite);
  a.fill(2);
  evict(a);
  EXPECT_EQ(mover_.statistics().evictions, 2U) << "its copy was stale";
  fetch(a);
  EXPECT_TRUE(a.holds(2));
}

TEST_F(MoverTest, AUseDuringEvictionKeepsTheBytes) {
  arm_faults("spool.write=delay:30ms@1+");
  auto& a = make(1);
  mover_.evict(*a.record);
  EXPECT_EQ(mover_.leaving(), kPages);
  EXPECT_EQ(fetch(a), Outcome::kReady) << "at once";
  EXPECT_EQ(mover_.leaving(), Bytes{0}) << "nothing is waited for in vain";
  wait();
  EXPECT_EQ(state(a), ResidencyState::kResident);
  EXPECT_TRUE(a.accessible.load());
  EXPECT_TRUE(a.record->has_copy.load());
}

TEST_F(MoverTest, AWriteDuringEvictionSpoilsTheCopy) {
  arm_faults("spool.write=delay:30ms@1+");
  auto& a = make(1);
  spillway::testing::mean_race(a.record->block->address, a.record->bytes.count);
  mover_.evict(*a.record);
  EXPECT_EQ(fetch(a, Access::kWrite), Outcome::kReady);
  a.fill(2);
  wait();
  EXPECT_FALSE(a.record->has_copy.load());
  EXPECT_EQ(mover_.spool()->used_bytes(), Bytes{0});
  evict(a);
  fetch(a);
  EXPECT_TRUE(a.holds(2));
}

TEST_F(MoverTest, PinnedKeptExportedAndUnboundStoragesStay) {
  auto& a = make(1);
  a.record->pins.store(1);
  EXPECT_EQ(evict(a), Bytes{0});
  a.record->pins.store(0);
  a.record->kept = 1;
  EXPECT_EQ(evict(a), Bytes{0});
  a.record->kept = 0;
  a.exported.store(true);
  EXPECT_EQ(evict(a), Bytes{0});
  a.exported.store(false);
  a.record->owner.store(nullptr);
  EXPECT_EQ(evict(a), Bytes{0});
  a.record->owner.store(&a);
  EXPECT_EQ(state(a), ResidencyState::kResident);
  EXPECT_EQ(evict(a), kPages);
}

TEST_F(MoverTest, AFailedWriteLeavesTheStorageUsable) {
  auto& a = make(1);
  arm_faults("spool.write=EIO@1+");
  evict(a);
  EXPECT_EQ(state(a), ResidencyState::kResident);
  EXPECT_NE(mover_.failure().find("writing the spool file failed"), std::string::npos);
  EXPECT_EQ(mover_.failures_in_a_row(), 1U);
  arm_faults("");
  EXPECT_EQ(evict(a), kPages);
  EXPECT_EQ(mover_.failures_in_a_row(), 0U);
  EXPECT_EQ(fetch(a), Outcome::kReady) << "the bytes were never lost";
  EXPECT_TRUE(a.holds(1));
}

TEST_F(MoverTest, AFailedReadIsReportedAndCanBeTriedAgain) {
  auto& a = make(1);
  evict(a);
  memory_.release_idle();
  arm_faults("spool.read=EIO@1+");
  EXPECT_EQ(fetch(a), Outcome::kFailed);
  EXPECT_NE(mover_.failure().find("reading the spool file failed"), std::string::npos);
  EXPECT_EQ(state(a), ResidencyState::kOnDisk);
  EXPECT_EQ(memory_.live(), Bytes{0});
  EXPECT_EQ(fetch(a), Outcome::kFailed) << "what lies in its pages now is not its bytes";
  arm_faults("");
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(a.holds(1));
}

TEST_F(MoverTest, AFullDiskIsSaidAndNothingLeaves) {
  configure({}, kPages);
  auto& a = make(1);
  auto& b = make(2);
  EXPECT_EQ(evict(a), kPages);
  EXPECT_EQ(evict(b), Bytes{0});
  EXPECT_EQ(state(b), ResidencyState::kResident);
  EXPECT_NE(mover_.failure().find("short"), std::string::npos);
  kill(a);
  EXPECT_EQ(evict(b), kPages);
}

TEST_F(MoverTest, ASpoolThatCannotBeOpenedLeavesTheStorageEvictable) {
  configure({}, kMiB, "/nonexistent/spillway");
  auto& a = make(1);
  EXPECT_EQ(evict(a), Bytes{0});
  EXPECT_NE(mover_.failure().find("/nonexistent/spillway"), std::string::npos);
  EXPECT_EQ(state(a), ResidencyState::kResident);
  configure({});
  EXPECT_EQ(evict(a), kPages);
}

TEST_F(MoverTest, WhatDiesInFlightIsGivenBackWhenTheCopyEnds) {
  arm_faults("spool.write=delay:30ms@1+");
  auto& a = make(1);
  mover_.evict(*a.record);
  kill(a);
  EXPECT_EQ(framework_.released.load(), 1U);
  EXPECT_EQ(mover_.live().size(), 1U);
  wait();
  EXPECT_EQ(mover_.live().size(), 0U);
  EXPECT_EQ(memory_.live(), Bytes{0});
  EXPECT_EQ(mover_.spool()->used_bytes(), Bytes{0});
  EXPECT_EQ(mover_.leaving(), Bytes{0});
}

TEST_F(MoverTest, ARecycledRecordKeepsOnlyTheOldPins) {
  auto& a = make(1);
  StorageRecord* const record = a.record;
  record->pins.store(1);  // of a frame that is still open
  record->kept = 1;
  record->failed = true;
  record->always_dirty.store(true);
  record->next_use.store(7);
  kill(a);
  auto& b = make(2);
  ASSERT_EQ(b.record, record);
  EXPECT_EQ(record->kept, 0U);
  EXPECT_FALSE(record->failed || record->always_dirty.load());
  EXPECT_EQ(record->next_use.load(), 0U);
  EXPECT_EQ(evict(b), Bytes{0}) << "safe, though the pin is another's";
  record->pins.fetch_sub(1);
  EXPECT_EQ(evict(b), kPages);
}

TEST_F(MoverTest, WhatIsWrittenUnseenIsNeverClean) {
  auto& a = make(1);
  evict(a);
  fetch(a);
  a.record->always_dirty.store(true);
  a.fill(2);
  EXPECT_EQ(evict(a), kPages);
  EXPECT_EQ(mover_.statistics().clean_evicted, Bytes{0});
  fetch(a);
  EXPECT_TRUE(a.holds(2));
}

TEST_F(MoverTest, VerifyFindsAnUndeclaredWriteAndKeepsIt) {
  configure({.host_budget = {}, .verify = true});
  auto& a = make(1);
  evict(a);
  fetch(a);
  EXPECT_EQ(mover_.statistics().checksums_compared, 1U);
  a.fill(2);
  evict(a);
  EXPECT_EQ(mover_.statistics().undeclared_writes, 1U);
  fetch(a);
  EXPECT_TRUE(a.holds(2));
}

TEST_F(MoverTest, VerifySwitchedOnLateDoesNotDistrustOldCopies) {
  auto& a = make(1);
  evict(a);
  mover_.configure({.host_budget = {}, .verify = true}, nullptr);
  EXPECT_EQ(fetch(a), Outcome::kReady);
  evict(a);
  EXPECT_EQ(mover_.statistics().undeclared_writes, 0U);
}

TEST_F(MoverTest, ExemptStoragesStay) {
  auto& a = make(1);
  evict(a);
  fetch(a);
  mover_.exempt(*a.record);
  EXPECT_EQ(state(a), ResidencyState::kExempt);
  EXPECT_EQ(mover_.spool()->used_bytes(), Bytes{0}) << "its copies are worth nothing";
  EXPECT_EQ(evict(a), Bytes{0});
  EXPECT_EQ(fetch(a, Access::kWrite), Outcome::kReady);
}

TEST_F(MoverTest, TheHostTierTakesEvictionsFirst) {
  configure({.host_budget = kPages, .verify = false});
  auto& a = make(1);
  EXPECT_EQ(evict(a), kPages);
  EXPECT_EQ(state(a), ResidencyState::kOnHost);
  EXPECT_EQ(mover_.spool()->used_bytes(), Bytes{0});
  EXPECT_EQ(mover_.used(Tier::kHost), Bytes{kBytes});
  const auto out = mover_.statistics().copied_at_once;
  EXPECT_GT(out.count(), 0) << "whoever evicted waited for the copy";
  memory_.release_idle();
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_GT(mover_.statistics().copied_at_once, out);
  EXPECT_TRUE(a.holds(1));
}

// The lock is held throughout, as by whoever frees the copy.
TEST_F(MoverTest, ThePagesOfACopyOnTheHostRemainUntilTheLockIsLetGoOf) {
  configure({.host_budget = kPages, .verify = false});
  auto& a = make(1);
  evict(a);
  const std::byte* const copy = a.record->host;
  memory_.release_idle();
  fetch(a);
  EXPECT_TRUE(remains_.pages.empty());
  fetch(a, Access::kWrite);
  EXPECT_EQ(mover_.used(Tier::kHost), Bytes{0});
  ASSERT_EQ(remains_.pages.size(), 1U);
  EXPECT_EQ(remains_.pages.front().get(), copy);
  a.fill(2);
  EXPECT_EQ(evict(a), kPages) << "their room is free already";
  EXPECT_EQ(state(a), ResidencyState::kOnHost);
}

// Copies that end on threads of the pool find no one else to free what remains.
TEST_F(MoverTest, ACopyThatEndsFreesWhatRemains) {
  configure({.host_budget = kPages, .verify = false});
  auto& a = make(1);
  auto& b = make(2);
  evict(a);
  mover_.evict(*b.record);
  ASSERT_EQ(state(a), ResidencyState::kDemoting);
  wait();
  EXPECT_EQ(state(a), ResidencyState::kOnDisk);
  EXPECT_TRUE(remains_.pages.empty());
}

// Threads end with the one, and a file is closed with the other, which may take long.
TEST_F(MoverTest, TransfersAndTheSpoolThatServeNoMoreAreHandedOut) {
  const Transfers* const transfers = &mover_.transfers();
  const Spool* const spool = mover_.spool();
  const Mover::Replaced replaced =
      mover_.configure({}, std::make_shared<Spool>(SpoolOptions{::testing::TempDir(), kMiB, {}}),
                       std::make_unique<TransferPool>());
  EXPECT_EQ(replaced.transfers.get(), transfers);
  EXPECT_EQ(replaced.spool.get(), spool);
  EXPECT_NE(&mover_.transfers(), transfers);
  EXPECT_NE(mover_.spool(), spool);
}

TEST_F(MoverTest, TransfersAndASpoolThatMayNotServeAreHandedBack) {
  auto& a = make(1);
  evict(a);
  auto transfers = std::make_unique<TransferPool>();
  const Transfers* const offered = transfers.get();
  const Spool* const present = mover_.spool();
  const Mover::Replaced refused =
      mover_.configure({}, std::make_shared<Spool>(SpoolOptions{::testing::TempDir(), kMiB, {}}),
                       std::move(transfers));
  EXPECT_EQ(refused.transfers.get(), offered);
  EXPECT_NE(refused.spool, nullptr);
  EXPECT_EQ(mover_.spool(), present) << "it holds a storage";
}

TEST_F(MoverTest, WhereTheMachineHasNoMemoryForTheHostTierTheDiskTakesOver) {
  configure({.host_budget = kPages, .verify = false});
  auto& a = make(1);
  arm_faults("host.allocate=ENOMEM@1+");
  EXPECT_EQ(evict(a), kPages);
  EXPECT_EQ(state(a), ResidencyState::kOnDisk);
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(a.holds(1));
}

TEST_F(MoverTest, AFullHostTierDemotesToDisk) {
  configure({.host_budget = kPages, .verify = false});
  auto& a = make(1);
  auto& b = make(2);
  evict(a);
  EXPECT_EQ(evict(b), Bytes{0}) << "no room before the demotion ends";
  EXPECT_EQ(state(a), ResidencyState::kOnDisk);
  EXPECT_EQ(evict(b), kPages);
  EXPECT_EQ(state(b), ResidencyState::kOnHost);
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_EQ(fetch(b), Outcome::kReady);
  EXPECT_TRUE(a.holds(1));
  EXPECT_TRUE(b.holds(2));
}

TEST_F(MoverTest, AUseDuringDemotionFetchesFromTheHost) {
  configure({.host_budget = kPages, .verify = false});
  auto& a = make(1);
  auto& b = make(2);
  evict(a);
  arm_faults("spool.write=delay:30ms@1+");
  mover_.evict(*b.record);
  ASSERT_EQ(state(a), ResidencyState::kDemoting);
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(a.holds(1));
  EXPECT_EQ(mover_.in_flight(), 0U);
}

// It then has copies on the host and on the disk; the one on the disk must not be given up for a
// place that was never written.
TEST_F(MoverTest, ADemotionThatWasUsedKeepsItsCopyOnDisk) {
  configure({.host_budget = kPages, .verify = false});
  auto& a = make(1);
  auto& b = make(2);
  evict(a);
  mover_.evict(*b.record);
  ASSERT_EQ(fetch(a), Outcome::kReady);
  const Bytes on_disk = mover_.spool()->used_bytes();
  EXPECT_EQ(evict(a), kPages);
  ASSERT_EQ(state(a), ResidencyState::kOnHost);
  EXPECT_EQ(evict(b), kPages) << "the host has room at once: a is on the disk already";
  EXPECT_EQ(state(a), ResidencyState::kOnDisk);
  EXPECT_EQ(mover_.spool()->used_bytes(), on_disk);
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(a.holds(1));
}

TEST_F(MoverTest, AFailedDemotionKeepsTheHostCopy) {
  configure({.host_budget = kPages, .verify = false});
  auto& a = make(1);
  auto& b = make(2);
  evict(a);
  arm_faults("spool.write=EIO@1+");
  EXPECT_EQ(evict(b), Bytes{0});
  EXPECT_EQ(state(a), ResidencyState::kOnHost);
  EXPECT_EQ(mover_.spool()->used_bytes(), Bytes{0});
  EXPECT_EQ(fetch(a), Outcome::kReady) << "no read failed";
  EXPECT_TRUE(a.holds(1));
}

TEST_F(MoverTest, ASpoolInUseIsNotReplaced) {
  auto& a = make(1);
  evict(a);
  EXPECT_FALSE(mover_.spool_is_empty());
  configure({}, kPages);
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(a.holds(1));
  mover_.drop_copies(*a.record);
  EXPECT_TRUE(mover_.spool_is_empty());
  configure({}, kPages);
  EXPECT_EQ(mover_.spool()->used_bytes(), Bytes{0});
  evict(a);
  mover_.drop_copies(*a.record);
  EXPECT_EQ(state(a), ResidencyState::kOnDisk) << "the only copy stays";
  EXPECT_EQ(mover_.in_flight(), 0U);
}

TEST_F(MoverTest, TheLargestMoversAreNamed) {
  auto& a = make(1);
  auto& b = make(2);
  a.record->made_by.store("fake::a");
  b.record->made_by.store("fake::b");
  evict(a);
  evict(b);
  memory_.release_idle();
  fetch(b);
  const auto top = mover_.tally().top(5);
  ASSERT_EQ(top.size(), 2U);
  EXPECT_EQ(top[0].name.substr(0, 7), "fake::b");
  EXPECT_EQ(top[0].bytes, Bytes{2 * kBytes});
}

}  // namespace
}  // namespace spillway::runtime
