// SPDX-License-Identifier: Apache-2.0
// Blocks that are fetched ahead of need are opened on another thread: what may happen to them
// meanwhile.
#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "card_storages.hpp"
#include "device_fixture.hpp"
#include "mapping_driver.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

/// Of this process.
int threads_that_open() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == "spillway-pages" ? 1 : 0;
  }
  return count;
}

/// A thread that has ended is listed a little longer.
bool none_opens_soon() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (threads_that_open() != 0) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

class OpeningAheadTest : public DeviceFixture {
 public:
  OpeningAheadTest() { begin(OpensAhead::kOnCall); }
  ~OpeningAheadTest() override {
    driver_.release_held();
    end();
    EXPECT_TRUE(lost_ || device_.used() == Bytes{0}) << "not all was given back";
  }

 protected:
  void begin(OpensAhead ahead) {
    end();
    storages_.emplace(
        clock_,
        CardStorageOptions{
            .device = kGranule * 4, .host = kGranule * 8, .slab = kGranule * 8, .ahead = ahead});
    lock_ = std::unique_lock(storages_->mutex());
  }
  void end() {
    if (lock_.owns_lock()) lock_.unlock();
    lock_.release();
    storages_.reset();
  }

  /// A storage that is away, and its pages gone.
  StorageRecord& away(int value) {
    StorageRecord& storage = *storages_->create(kGranule, one_);
    const auto address = storages_->use(storage, one_, Access::kWrite);
    EXPECT_TRUE(device_.fill(*address, std::byte(value), kGranule, one_).done());
    storages_->used(storage, one_);
    EXPECT_TRUE(storages_->evict(storage));
    while (ResidencyState::kOnHost != state(storage)) storages_->advance();
    while (storages_->tier().coming() != Bytes{0}) storages_->advance();
    return storage;
  }
  static ResidencyState state(const StorageRecord& storage) { return CardStorages::state(storage); }
  int read(StorageRecord& storage) {
    std::byte seen{};
    const auto address = storages_->use(storage, two_, Access::kRead);
    EXPECT_TRUE(address) << storages_->failure();
    if (!address) return -1;
    const auto look = [&](std::span<std::byte* const> at) { seen = at[0][0]; };
    EXPECT_TRUE(device_.launch(two_, {{*address, kGranule}}, look).done());
    storages_->used(storage, two_);
    EXPECT_TRUE(device_.synchronize_stream(two_).done());
    return static_cast<int>(seen);
  }
  void settle() {
    while (storages_->mover().in_flight() != 0) storages_->advance();
  }
  std::future<void> release_held_soon() {
    return std::async(std::launch::async, [this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      driver_.release_held();
    });
  }
  void expect_accounts() {
    const VmmPages& pages = storages_->tier().pages();
    EXPECT_EQ(storages_->tier().budget().used(), pages.mapped() + pages.leaving() + pages.ready());
    EXPECT_EQ(device_.used(), storages_->tier().budget().used());
  }

  MappingDriver driver_{device_};
  StreamClock clock_{driver_};
  std::optional<CardStorages> storages_;
  std::unique_lock<std::mutex> lock_;
  bool lost_ = false;  // the device, with all that is on it
};

TEST_F(OpeningAheadTest, AProgramsThreadMapsNothingForAPrefetch) {
  begin(OpensAhead::kOnThread);
  StorageRecord& storage = away(3);
  storages_->tier().release_idle();  // so that its memory is created anew, too
  const int before = driver_.calls_of_program();
  ASSERT_TRUE(storages_->prefetch(storage));
  settle();
  EXPECT_EQ(state(storage), ResidencyState::kResident);
  EXPECT_EQ(driver_.calls_of_program(), before);
  EXPECT_EQ(driver_.calls_of_others(), 3) << "create, map, allow_access";
  EXPECT_EQ(read(storage), 3);
  expect_accounts();
}

TEST_F(OpeningAheadTest, TheBudgetIsClaimedAtOnce) {
  const std::array all{&away(0), &away(1), &away(2), &away(3)};
  storages_->tier().release_idle();
  for (StorageRecord* const storage : all) ASSERT_TRUE(storages_->prefetch(*storage));
  EXPECT_EQ(storages_->tier().budget().used(), kGranule * 4);
  EXPECT_EQ(device_.used(), Bytes{0});
  EXPECT_EQ(storages_->tier().bytes_opening(), kGranule * 4) << "so a driver counts less";
  EXPECT_EQ(storages_->create(kGranule, one_), nullptr);
  settle();
  EXPECT_EQ(storages_->tier().bytes_opening(), Bytes{0});
  for (int value = 0; value < 4; ++value)
    EXPECT_EQ(read(*all[static_cast<std::size_t>(value)]), value);
}

//   prefetch     copy: queued     open     copy: issued
TEST_F(OpeningAheadTest, ACopyWaitsForItsBlock) {
  StorageRecord& storage = away(3);
  ASSERT_TRUE(storages_->prefetch(storage));
  storages_->advance();  // looks, then opens
  EXPECT_EQ(state(storage), ResidencyState::kFetching);
  storages_->advance();
  EXPECT_EQ(state(storage), ResidencyState::kResident);
  EXPECT_EQ(read(storage), 3);
}

TEST_F(OpeningAheadTest, WhoNeedsABlockThatWaitsOpensIt) {
  StorageRecord& storage = away(3);
  ASSERT_TRUE(storages_->prefetch(storage));
  const int before = driver_.calls_of_program();
  EXPECT_EQ(read(storage), 3);
  EXPECT_EQ(driver_.calls_of_program(), before + 2) << "its handle was ready";
  EXPECT_TRUE(storages_->tier().open_next());
  EXPECT_FALSE(storages_->tier().open_next());
  EXPECT_EQ(driver_.calls_of_program(), before + 2) << "once is enough";
}

//   thread     map, allow_access ...        program     use: waits for that, and no longer
TEST_F(OpeningAheadTest, WhoNeedsABlockInTheMidstOfItsOpeningWaitsForThat) {
  begin(OpensAhead::kOnThread);
  StorageRecord& storage = away(3);
  const int before = driver_.calls_of_program();
  driver_.hold();
  ASSERT_TRUE(storages_->prefetch(storage));
  driver_.wait_until_held();
  const auto later = release_held_soon();
  EXPECT_EQ(read(storage), 3);
  EXPECT_EQ(driver_.calls_of_program(), before);
  expect_accounts();
}

TEST_F(OpeningAheadTest, WhatCannotBeOpenedAheadIsOpenedByWhoeverNeedsIt) {
  StorageRecord& storage = away(3);
  for (const DeviceCall call : {DeviceCall::kCreate, DeviceCall::kMap, DeviceCall::kAllowAccess}) {
    for (const auto& status : {ThreadDevice::kOutOfMemory, ThreadDevice::kInvalid}) {
      storages_->tier().release_idle();
      ASSERT_TRUE(storages_->prefetch(storage));
      device_.fail(call, 1, status);
      EXPECT_EQ(read(storage), 3) << static_cast<int>(call);
      expect_accounts();
      ASSERT_TRUE(storages_->evict(storage));
      while (storages_->tier().coming() != Bytes{0}) storages_->advance();
    }
  }
}

TEST_F(OpeningAheadTest, WhatCannotBeOpenedAndNobodyNeedsStaysAway) {
  StorageRecord& storage = away(3);
  ASSERT_TRUE(storages_->prefetch(storage));
  device_.fail(DeviceCall::kMap, 1, ThreadDevice::kOutOfMemory);
  settle();
  EXPECT_EQ(state(storage), ResidencyState::kOnHost);
  EXPECT_EQ(storages_->tier().budget().used(), Bytes{0});
  expect_accounts();
  // The card may be full: the next is opened at once, and takes what is ready.
  const int before = driver_.calls_of_program();
  ASSERT_TRUE(storages_->prefetch(storage));
  EXPECT_EQ(driver_.calls_of_program(), before + 3);
  EXPECT_EQ(read(storage), 3);
}

TEST_F(OpeningAheadTest, AThreadThatCannotUseTheDeviceLeavesItToOthers) {
  begin(OpensAhead::kOnThread);
  driver_.thread_enters = false;
  StorageRecord& storage = away(3);
  ASSERT_TRUE(storages_->prefetch(storage));
  EXPECT_EQ(read(storage), 3);
  EXPECT_EQ(driver_.calls_of_others(), 0);
  expect_accounts();
}

TEST_F(OpeningAheadTest, ALostDeviceEndsInWords) {
  StorageRecord& storage = away(3);
  ASSERT_TRUE(storages_->prefetch(storage));
  device_.lose();
  lost_ = true;
  EXPECT_THROW(read(storage), DeviceFailure);
}

TEST_F(OpeningAheadTest, AFetchTakenBackIsNeverMapped) {
  StorageRecord& storage = away(3);
  const int before = driver_.calls_of_program();
  ASSERT_TRUE(storages_->prefetch(storage));
  storages_->give_up(storage);
  EXPECT_EQ(state(storage), ResidencyState::kOnHost);
  EXPECT_EQ(storages_->tier().pages().ready(), kGranule);
  EXPECT_TRUE(storages_->tier().open_next());
  EXPECT_EQ(driver_.calls_of_program(), before);
  expect_accounts();
  EXPECT_EQ(read(storage), 3);
}

//   thread     map, allow_access ...        program     give_up: waits for that; the pages leave
TEST_F(OpeningAheadTest, AFetchTakenBackInTheMidstOfItsOpeningIsWaitedFor) {
  begin(OpensAhead::kOnThread);
  StorageRecord& storage = away(3);
  driver_.hold();
  ASSERT_TRUE(storages_->prefetch(storage));
  driver_.wait_until_held();
  const auto later = release_held_soon();
  storages_->give_up(storage);
  EXPECT_EQ(state(storage), ResidencyState::kOnHost);
  EXPECT_EQ(storages_->tier().coming(), kGranule);
  expect_accounts();
  EXPECT_EQ(read(storage), 3);
}

TEST_F(OpeningAheadTest, WhatDiesMeanwhileLeavesItsMemoryToOthers) {
  for (const bool fails : {false, true}) {
    StorageRecord& storage = away(3);
    ASSERT_TRUE(storages_->prefetch(storage));
    storages_->die(storage);
    if (fails) device_.fail(DeviceCall::kMap, 1, ThreadDevice::kOutOfMemory);
    settle();
    EXPECT_EQ(storages_->tier().live(), Bytes{0});
    expect_accounts();
    StorageRecord& other = *storages_->create(kGranule, one_);
    expect_accounts();
    storages_->die(other);
  }
}

TEST_F(OpeningAheadTest, TheEndWaitsForTheOpeningThatHasBegunAndForNoOther) {
  begin(OpensAhead::kOnThread);
  const std::array all{&away(0), &away(1), &away(2), &away(3)};
  driver_.hold();
  for (StorageRecord* const storage : all) ASSERT_TRUE(storages_->prefetch(*storage));
  driver_.wait_until_held();
  const int begun = driver_.calls_of_others();
  const auto later = release_held_soon();
  end();
  EXPECT_EQ(driver_.calls_of_others(), begun);
}

TEST_F(OpeningAheadTest, TheThreadIsThereWhereItIsNeededAndInNoFork) {
  begin(OpensAhead::kOnThread);
  StorageRecord& storage = away(3);
  storages_->tier().before_fork();  // the thread may have taken away the pages
  EXPECT_TRUE(none_opens_soon());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(storages_->prefetch(storage));
    settle();
    EXPECT_EQ(threads_that_open(), 1);
    storages_->tier().before_fork();
    EXPECT_TRUE(none_opens_soon());
    EXPECT_EQ(read(storage), 3);
    ASSERT_TRUE(storages_->evict(storage));
    while (storages_->tier().coming() != Bytes{0}) storages_->advance();
  }
}

}  // namespace
}  // namespace spillway::runtime
