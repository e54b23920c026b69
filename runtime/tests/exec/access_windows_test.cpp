// SPDX-License-Identifier: Apache-2.0
// The fault that a stale pointer meets while a storage leaves and while it comes back. The engine's
// lock is held throughout, so that no copy is over before it is looked at: its end needs the lock.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "access_probe.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/memory/device_memory.hpp"
#include "spillway/testing/fake_framework.hpp"
#include "spillway/testing/meant_race.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;
using spillway::testing::FakeStorage;
using Outcome = Mover::Outcome;

constexpr ArenaOptions kSmallArena{.reservation = Bytes{std::uint64_t{1} << 30},
                                   .minimum = Bytes{std::uint64_t{1} << 28}};

class AccessWindowsTest : public ::testing::TestWithParam<std::pair<IoMethod, std::uint64_t>> {
 public:
  AccessWindowsTest() { configure({}); }
  ~AccessWindowsTest() override {
    arm_faults("");
    wait();
    while (!mover_.live().empty()) die(*mover_.live().back());
  }

 protected:
  void configure(const MoverOptions& options) {
    std::unique_ptr<Transfers> transfers;
    try {
      transfers = make_transfers(GetParam().first);
    } catch (const UserError& error) {
      skip_ = error.what();
    }
    mover_.configure(options, std::make_shared<Spool>(SpoolOptions{::testing::TempDir(), kGiB, {}}),
                     std::move(transfers));
  }
  void SetUp() override {
    if (!skip_.empty()) GTEST_SKIP() << skip_;
    if (!PagePool::kernel_moves_pages()) GTEST_SKIP() << "pages are not moved on this machine";
  }
  FakeStorage& make(std::uint64_t seed) {
    const Allocation made = memory_.allocate({GetParam().second}, Overbooking::kAllow);
    auto* storage = new FakeStorage;
    storage->pointer = made.pointer;
    storage->bytes = GetParam().second;
    storage->record = &mover_.create(*made.block, {storage->bytes});
    storage->record->owner.store(storage);
    spillway::testing::mean_race(storage->pointer, storage->bytes);
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
  Outcome request(FakeStorage& storage, Access access = Access::kRead) {
    return mover_.request(*storage.record, access, Overbooking::kAllow).outcome;
  }
  Outcome fetch(FakeStorage& storage) {
    for (;;) {
      const Outcome outcome = request(storage);
      if (outcome != Outcome::kPending) return outcome;
      settled_.wait(lock_);
    }
  }
  void die(StorageRecord& record) {
    mover_.die(record);
    for (void* owner : std::exchange(remains_.owners, {})) framework_.release(owner);
  }
  /// Its pages are another storage's from now on.
  void lose_pages(FakeStorage& storage) {
    ASSERT_EQ(storage.record->state.load(), ResidencyState::kOnDisk);
    other_ = &make(99);
    memory_.release_idle();
  }
  template <typename Property>
  static bool everywhere(FakeStorage& storage, const Property& property) {
    for (std::uint64_t at = 0; at < storage.bytes; at += kPage) {
      if (!property(storage.pointer + at)) return false;
    }
    return property(storage.pointer + storage.bytes - 1);
  }
  bool all_readable(FakeStorage& storage) {
    return everywhere(storage, [this](std::byte* at) { return probe_.readable(at); });
  }
  bool none_readable(FakeStorage& storage) {
    return everywhere(storage, [this](std::byte* at) { return !probe_.readable(at); });
  }
  bool all_writable(FakeStorage& storage) {
    return everywhere(storage, [this](std::byte* at) { return probe_.writable(at); });
  }
  bool none_writable(FakeStorage& storage) {
    return everywhere(storage, [this](std::byte* at) { return !probe_.writable(at); });
  }

  std::mutex mutex_;
  std::condition_variable settled_;
  DeviceMemory memory_{kMiB * 64, kSmallArena};
  spillway::testing::FakeFramework framework_;
  Remains remains_;
  HostMemory host_;
  Mover mover_{mutex_, settled_, memory_, host_, framework_, remains_};
  std::unique_lock<std::mutex> lock_{mutex_};
  FakeStorage* other_ = nullptr;
  std::string skip_;
  AccessProbe probe_;
};

TEST_P(AccessWindowsTest, WhatLeavesIsReadAndNotWritten) {
  auto& a = make(1);
  ASSERT_TRUE(all_writable(a));
  mover_.evict(*a.record);
  ASSERT_EQ(a.record->state.load(), ResidencyState::kEvicting);
  EXPECT_TRUE(none_writable(a));
  EXPECT_TRUE(all_readable(a)) << "the bytes are its own";
  wait();
  EXPECT_TRUE(none_readable(a));
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(all_writable(a) && a.holds(1));
}

TEST_P(AccessWindowsTest, WhatIsUsedWhileItLeavesIsWrittenAgain) {
  for (const Access access : {Access::kRead, Access::kWrite}) {
    auto& a = make(1);
    mover_.evict(*a.record);
    EXPECT_EQ(request(a, access), Outcome::kReady) << "at once";
    EXPECT_TRUE(all_writable(a));
    wait();
    EXPECT_TRUE(all_writable(a));
  }
}

TEST_P(AccessWindowsTest, WhatTheKernelKeepsReadOnlyIsRefusedAndLeaves) {
  auto& a = make(1);
  mover_.evict(*a.record);
  arm_faults("arena.map=ENOMEM@1+");
  EXPECT_EQ(request(a, Access::kWrite), Outcome::kFailed);
  EXPECT_NE(mover_.failure().find("writable"), std::string::npos) << mover_.failure();
  arm_faults("");
  wait();
  EXPECT_EQ(a.record->state.load(), ResidencyState::kOnDisk);
  EXPECT_EQ(mover_.leaving(), Bytes{0});
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(all_writable(a) && a.holds(1));
}

TEST_P(AccessWindowsTest, WhatIsExportedWhileItLeavesIsWrittenAgain) {
  auto& a = make(1);
  mover_.evict(*a.record);
  mover_.exempt(*a.record);
  EXPECT_TRUE(all_writable(a));
  wait();
  EXPECT_TRUE(all_writable(a));
}

TEST_P(AccessWindowsTest, WhatCouldNotLeaveIsWrittenAgain) {
  auto& a = make(1);
  arm_faults("spool.write=ENOSPC@1+");
  evict(a);
  ASSERT_EQ(a.record->state.load(), ResidencyState::kResident);
  EXPECT_TRUE(all_writable(a));
}

TEST_P(AccessWindowsTest, WhatWasToLeaveAndDoesNotIsWrittenAgain) {
  constexpr std::size_t kMany = 12;  // more than are under way at once
  std::vector<FakeStorage*> storages;
  for (std::size_t i = 0; i < kMany; ++i) storages.push_back(&make(i));
  arm_faults("spool.write=delay:20ms@1+");
  for (FakeStorage* storage : storages) mover_.write_behind(*storage->record, this);
  mover_.cancel_ahead(this);
  std::size_t stayed = 0;
  for (FakeStorage* storage : storages) {
    if (storage->record->state.load() != ResidencyState::kResident) continue;
    ++stayed;
    EXPECT_TRUE(all_writable(*storage));
  }
  EXPECT_GT(stayed, 0U);
}

// An op that sees it in memory takes no lock, and may write at once.
class LooksWhenItIsHere final : public residency::TransitionObserver {
 public:
  explicit LooksWhenItIsHere(std::function<bool()> writable) : writable_(std::move(writable)) {}
  void on_event(const residency::ResidencyMachine& machine, const residency::Event& event, TimeNs,
                std::span<const residency::Action>) override {
    const bool ended = event.kind == residency::EventKind::kCopyCompleted ||
                       event.kind == residency::EventKind::kCopyFailed;
    if (!ended || machine.state(event.id) != ResidencyState::kResident) return;
    ++seen;
    if (!writable_()) ++too_early;
  }
  int seen = 0;
  int too_early = 0;

 private:
  std::function<bool()> writable_;
};

TEST_P(AccessWindowsTest, NobodySeesItInMemoryBeforeItIsWritable) {
  FakeStorage* storage = nullptr;
  LooksWhenItIsHere looks([&] { return all_writable(*storage); });
  configure({.host_budget = {}, .verify = false, .observer = &looks});

  auto& failed = make(1);
  storage = &failed;
  arm_faults("spool.write=ENOSPC@1+");
  evict(failed);
  arm_faults("");
  ASSERT_EQ(looks.seen, 1);

  auto& spoilt = make(2);
  storage = &spoilt;
  mover_.evict(*spoilt.record);
  ASSERT_EQ(request(spoilt, Access::kWrite), Outcome::kReady);
  ASSERT_TRUE(mover_.leave(*spoilt.record, Tier::kDisk));
  EXPECT_TRUE(none_writable(spoilt));
  wait();
  ASSERT_EQ(looks.seen, 2);
  EXPECT_EQ(looks.too_early, 0);
  configure({});
}

TEST_P(AccessWindowsTest, WhatDiesWhileItLeavesLeavesUsableMemory) {
  auto& a = make(1);
  mover_.evict(*a.record);
  const std::byte* const address = a.pointer;
  die(*a.record);
  wait();
  auto& b = make(2);
  EXPECT_EQ(b.pointer, address);
  EXPECT_TRUE(b.holds(2));
}

TEST_P(AccessWindowsTest, WhatComesBackIsInaccessibleUntilAllOfItIsThere) {
  auto& a = make(1);
  evict(a);
  lose_pages(a);
  const Bytes used = memory_.budget().used();
  ASSERT_EQ(request(a), Outcome::kPending);
  EXPECT_TRUE(none_readable(a));
  EXPECT_EQ(memory_.live(), used + memory_.held(*a.record->block)) << "its pages count";
  wait();
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(all_writable(a) && a.holds(1) && other_->holds(99));
  EXPECT_EQ(memory_.live(), used + memory_.resident(*a.record->block));
  EXPECT_EQ(memory_.budget().used(), memory_.live());
}

TEST_P(AccessWindowsTest, ARefusalToMoveThePagesIsMetWithACopy) {
  auto& a = make(1);
  evict(a);
  lose_pages(a);
  arm_faults("arena.land=ENOMEM@1+");
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(all_writable(a) && a.holds(1) && other_->holds(99));
  EXPECT_EQ(memory_.budget().used(), memory_.live());
}

TEST_P(AccessWindowsTest, WhatCannotBeReadStaysInaccessibleAndComesLater) {
  auto& a = make(1);
  evict(a);
  lose_pages(a);
  arm_faults("spool.read=ENODEV@1+");
  EXPECT_EQ(fetch(a), Outcome::kFailed);
  EXPECT_TRUE(none_readable(a));
  EXPECT_GE(mover_.away(), Bytes{a.bytes}) << "what it would take";
  arm_faults("");
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(all_writable(a) && a.holds(1));
  EXPECT_EQ(mover_.away(), Bytes{0});
}

TEST_P(AccessWindowsTest, WhatDiesWhileItComesBackGivesItsPagesBack) {
  auto& a = make(1);
  evict(a);
  lose_pages(a);
  const Bytes live = memory_.live();
  ASSERT_EQ(request(a), Outcome::kPending);
  die(*a.record);
  wait();
  EXPECT_EQ(memory_.live(), live);
  auto& b = make(3);
  EXPECT_TRUE(all_writable(b) && b.holds(3) && other_->holds(99));
}

// Room for the fetch is made while the demotion runs; then nobody wants it any more.
TEST_P(AccessWindowsTest, RoomThatWasMadeForNothingIsUsedLater) {
  configure({.host_budget = round_up(Bytes{GetParam().second} + Bytes{kPage}, kPage),
             .verify = false});  // for one of them
  auto& a = make(1);
  auto& b = make(2);
  evict(a);
  ASSERT_EQ(a.record->state.load(), ResidencyState::kOnHost);
  memory_.release_idle();
  mover_.evict(*b.record);  // which needs a's place there
  ASSERT_EQ(a.record->state.load(), ResidencyState::kDemoting);
  ASSERT_EQ(request(a), Outcome::kPending);
  EXPECT_TRUE(none_readable(a));
  ASSERT_TRUE(mover_.leave(*a.record, Tier::kDisk));
  wait();
  ASSERT_EQ(a.record->state.load(), ResidencyState::kOnDisk);
  EXPECT_TRUE(none_readable(a));
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(all_writable(a) && a.holds(1) && b.holds(2));
  EXPECT_EQ(memory_.budget().used(), memory_.live());
}

TEST_P(AccessWindowsTest, VerifyReadsApartEvenWhatCouldBeRecalled) {
  configure({.host_budget = {}, .verify = true});
  auto& a = make(1);
  evict(a);
  ASSERT_EQ(request(a), Outcome::kPending);
  EXPECT_TRUE(none_readable(a));
  wait();
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(all_writable(a) && a.holds(1));
  EXPECT_EQ(mover_.statistics().checksums_compared, 1U);
}

TEST_P(AccessWindowsTest, PoisonOfWhatLeftIsSeenByWhoGetsThePages) {
  memory_.set_poison(Poison::kYes);
  auto& a = make(1);
  evict(a);
  EXPECT_TRUE(none_readable(a));
  const Allocation made = memory_.allocate({a.bytes}, Overbooking::kAllow);
  const auto held = static_cast<std::uint64_t>(std::count(
      as_block(*made.block).base, as_block(*made.block).base + a.bytes, std::byte{0xff}));
  EXPECT_GE(held, a.bytes / kChunk * kChunk) << "of chunks, which moved here";
  EXPECT_EQ(fetch(a), Outcome::kReady);
  EXPECT_TRUE(a.holds(1));
}

constexpr std::uint64_t kSmall = 200'000;
constexpr std::uint64_t kLarge = (std::uint64_t{5} << 20) + 77'000;  // chunks and a tail

INSTANTIATE_TEST_SUITE_P(Io, AccessWindowsTest,
                         ::testing::Values(std::pair{IoMethod::kThreads, kSmall},
                                           std::pair{IoMethod::kThreads, kLarge},
                                           std::pair{IoMethod::kUring, kSmall},
                                           std::pair{IoMethod::kUring, kLarge}));

}  // namespace
}  // namespace spillway::runtime
