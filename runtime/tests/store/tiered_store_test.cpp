// SPDX-License-Identifier: Apache-2.0
// The store below a framework: what is stored comes back, whatever the disk does in between.
#include "spillway/runtime/store/tiered_store.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "tiered_store_fixture.hpp"

namespace spillway::runtime {
namespace {

// The descriptor of the store's file, which has no name any more.
int spool_descriptor() {
  const std::filesystem::path folder = std::filesystem::canonical(testing::TempDir());
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry, error).string();
    if (!error && target.starts_with(folder.string()) && target.ends_with("(deleted)")) {
      return std::stoi(entry.path().filename());
    }
  }
  return -1;
}
TEST_P(TieredStoreTest, FillsTheHostFirstAndThenTheDisk) {
  TieredStore tiers(options(Bytes{kPage.count * 2}, kMiB), transfers());
  const auto first = tiers.reserve({kPage.count + 1});
  const auto second = tiers.reserve({1});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(tiers.tier(*first), Tier::kHost);
  EXPECT_EQ(tiers.tier(*second), Tier::kDisk);
  const auto given = contents({kPage.count + 1}, 1);
  const auto small = contents({1}, 2);
  EXPECT_EQ(store(tiers, *first, given), 0);
  EXPECT_EQ(store(tiers, *second, small), 0);
  std::vector<std::byte> found;
  EXPECT_EQ(load(tiers, *first, found), 0);
  EXPECT_EQ(found, given);
  EXPECT_EQ(load(tiers, *second, found), 0);
  EXPECT_EQ(found, small);
  const StoreStatistics statistics = tiers.statistics();
  EXPECT_EQ(statistics.stored_on_host, Bytes{kPage.count + 1});
  EXPECT_EQ(statistics.loaded_from_host, Bytes{kPage.count + 1});
  EXPECT_EQ(statistics.stored_on_disk, Bytes{1});
  EXPECT_EQ(statistics.loaded_from_disk, Bytes{1});
  tiers.drop(*first);
  tiers.drop(*second);
  EXPECT_EQ(tiers.usage(), (StoreUsage{.host = {}, .host_budget = Bytes{kPage.count * 2}}));
}

TEST_P(TieredStoreTest, NamesWhatMovedMostHoweverItWent) {
  TieredStore tiers(options(kPage, kMiB), transfers());
  const auto host = tiers.reserve(kPage, Tier::kHost, "host");
  const auto disk = tiers.reserve(kPage * 2, Tier::kDisk, "disk");
  const auto mapped = tiers.map(kPage * 4, "mapped");
  const auto nobodys = tiers.reserve(kPage * 5);
  ASSERT_TRUE(host && disk && mapped && nobodys);
  arm_faults("spool.write=ENOSPC@1");  // is not tried again
  EXPECT_EQ(store(tiers, *nobodys, contents(kPage * 5, 1)), ENOSPC);
  arm_faults("");
  EXPECT_EQ(store(tiers, *nobodys, contents(kPage * 5, 1)), 0);
  EXPECT_EQ(store(tiers, *host, contents(kPage, 2)), 0);
  EXPECT_TRUE(tiers.demote(*host, [](int error) { EXPECT_EQ(error, 0); }));
  EXPECT_EQ(store(tiers, *disk, contents(kPage * 2, 3)), 0);
  std::vector<std::byte> found;
  for (const auto& id : {*host, *disk, *disk}) EXPECT_EQ(load(tiers, id, found), 0);
  EXPECT_EQ(tiers.write_aside(mapped->id, contents(kPage * 4, 4).data()), 0);
  EXPECT_EQ(tiers.bring(mapped->id, Access::kRead), 0);
  EXPECT_EQ(tiers.put_aside(mapped->id), 0);
  std::map<std::string, Bytes> moved;
  for (const auto& [name, bytes] : tiers.top_movers(9)) moved[name] = bytes;
  EXPECT_EQ(moved, (std::map<std::string, Bytes>{{"mapped 16 KiB", kPage * 12},
                                                 {"disk 8 KiB", kPage * 6},
                                                 {"unknown 20 KiB", kPage * 5},
                                                 {"host 4 KiB", kPage * 3}}));
  EXPECT_EQ(tiers.top_movers(1).front().name, "mapped 16 KiB");
  const StoreStatistics all = tiers.statistics();
  EXPECT_EQ(all.stored_on_host + all.stored_on_disk + all.loaded_from_host + all.loaded_from_disk,
            kPage * 26);
}

TEST_P(TieredStoreTest, RandomHistoriesBringBackWhatWasStored) {
  TieredStore tiers(options(kMiB, kMiB * 8), transfers());
  std::mt19937_64 random(5);
  std::map<StoredId, std::uint64_t> stored;  // id to seed
  for (std::uint64_t turn = 0; turn < 400; ++turn) {
    const auto id = tiers.reserve({1 + random() % (kMiB.count / 4)});
    if (id) {
      stored[*id] = turn;
      ASSERT_EQ(store(tiers, *id, contents(tiers.bytes(*id), turn)), 0);
    }
    const auto some = std::next(stored.begin(), static_cast<long>(random() % stored.size()));
    if (tiers.tier(some->first) == Tier::kHost && random() % 2 == 0) {
      tiers.demote(some->first, [](int error) { EXPECT_EQ(error, 0); });
    }
    std::vector<std::byte> found;
    ASSERT_EQ(load(tiers, some->first, found), 0);
    ASSERT_EQ(found, contents(tiers.bytes(some->first), some->second)) << "turn " << turn;
    if (!id || random() % 3 == 0) {
      tiers.drop(some->first);
      stored.erase(some);
    }
  }
  EXPECT_GT(tiers.statistics().refused, 0U) << "the tiers were never full";
  for (const auto& [id, seed] : stored) tiers.drop(id);
  EXPECT_EQ(tiers.usage().host + tiers.usage().disk, Bytes{});
}

TEST_P(TieredStoreTest, AFailedStoreLeavesThePlaceEmptyAndMayBeTriedAgain) {
  TieredStore tiers(options({}, kMiB), transfers());
  const auto id = tiers.reserve(kPage);
  const auto given = contents(kPage, 3);
  // EIO is tried four times in all.
  arm_faults("spool.write=EIO@1, spool.write=EIO@2, spool.write=EIO@3, spool.write=EIO@4");
  EXPECT_EQ(store(tiers, *id, given), EIO);
  EXPECT_EQ(tiers.statistics().failed, 1U);
  EXPECT_EQ(store(tiers, *id, given), 0);
  std::vector<std::byte> found;
  EXPECT_EQ(load(tiers, *id, found), 0);
  EXPECT_EQ(found, given);
}

TEST_P(TieredStoreTest, AFailedLoadLosesNothing) {
  TieredStore tiers(options({}, kMiB), transfers());
  const auto id = tiers.reserve(kPage);
  const auto given = contents(kPage, 4);
  EXPECT_EQ(store(tiers, *id, given), 0);
  arm_faults("spool.read=EIO@1, spool.read=EIO@2, spool.read=EIO@3, spool.read=EIO@4");
  std::vector<std::byte> found;
  EXPECT_EQ(load(tiers, *id, found), EIO);
  EXPECT_EQ(load(tiers, *id, found), 0);
  EXPECT_EQ(found, given);
}

// One worker writes the first place, late; the second waits in the queue behind it.
TEST_P(TieredStoreTest, AStoreThatWaitsInTheQueueCanBeCancelled) {
  if (GetParam() != IoMethod::kThreads) GTEST_SKIP() << "only threads have a queue of known order";
  TieredStore tiers(options({}, kMiB), std::make_unique<TransferPool>(1));
  const auto first = tiers.reserve(kPage);
  const auto second = tiers.reserve(kPage);
  arm_faults("spool.write=delay:100ms@1");
  const auto given = contents(kPage, 5);
  std::atomic<int> ended{0};
  tiers.store(*first, given.data(), [&ended](int) { ++ended; });
  tiers.store(*second, given.data(), [&ended](int) { ended += 100; });
  EXPECT_TRUE(tiers.cancel(*second));
  tiers.drain();
  EXPECT_EQ(ended, 1) << "done of the cancelled store must not be called";
  EXPECT_FALSE(tiers.cancel(*first)) << "it has ended";
  EXPECT_EQ(tiers.statistics().cancelled, 1U);
  EXPECT_EQ(store(tiers, *second, given), 0) << "the place is empty, and can be used";
}

TEST_P(TieredStoreTest, DemotingGivesBackHostMemoryAndKeepsTheBytes) {
  TieredStore tiers(options(kPage, kMiB), transfers());
  const auto id = tiers.reserve(kPage);
  const auto given = contents(kPage, 6);
  EXPECT_EQ(store(tiers, *id, given), 0);
  std::atomic<int> error{-1};
  EXPECT_TRUE(tiers.demote(*id, [&error](int result) { error = result; }));
  tiers.drain();
  EXPECT_EQ(error, 0);
  EXPECT_EQ(tiers.tier(*id), Tier::kDisk);
  EXPECT_EQ(tiers.usage().host, Bytes{});
  EXPECT_FALSE(tiers.demote(*id, [](int) { ADD_FAILURE(); })) << "it is there already";
  std::vector<std::byte> found;
  EXPECT_EQ(load(tiers, *id, found), 0);
  EXPECT_EQ(found, given);
}

TEST_P(TieredStoreTest, AFailedDemotionLeavesTheBytesOnTheHost) {
  TieredStore tiers(options(kPage, kPage), transfers());
  const auto id = tiers.reserve(kPage);
  const auto given = contents(kPage, 7);
  EXPECT_EQ(store(tiers, *id, given), 0);
  arm_faults("spool.write=ENOSPC@1");  // is not tried again
  std::atomic<int> error{-1};
  EXPECT_TRUE(tiers.demote(*id, [&error](int result) { error = result; }));
  tiers.drain();
  EXPECT_EQ(error, ENOSPC);
  EXPECT_EQ(tiers.tier(*id), Tier::kHost);
  EXPECT_EQ(tiers.usage().disk, Bytes{}) << "the extent is given back";
  ASSERT_TRUE(tiers.reserve(kPage, Tier::kDisk));
  EXPECT_FALSE(tiers.demote(*id, [](int) { ADD_FAILURE(); })) << "the disk has no room";
  std::vector<std::byte> found;
  EXPECT_EQ(load(tiers, *id, found), 0);
  EXPECT_EQ(found, given);
}

TEST_P(TieredStoreTest, WhatIsDroppedInFlightIsFreedWhenItsCopyEnds) {
  TieredStore tiers(options({}, kMiB), transfers());
  const auto id = tiers.reserve(kPage);
  arm_faults("spool.write=delay:50ms@1");
  const auto given = contents(kPage, 8);
  std::atomic<int> error{-1};
  tiers.store(*id, given.data(), [&error](int result) { error = result; });
  tiers.drop(*id);
  EXPECT_EQ(tiers.usage().disk, kPage) << "the transfer still writes there";
  tiers.drain();
  EXPECT_EQ(error, 0);
  EXPECT_EQ(tiers.usage().disk, Bytes{});
  EXPECT_EQ(tiers.usage().places, 0U);
}

TEST_P(TieredStoreTest, VerifyFindsBytesThatTheDiskChanged) {
  TieredStoreOptions verifying = options({}, kMiB);
  verifying.verify = true;
  TieredStore tiers(verifying, transfers());
  const auto id = tiers.reserve(kPage);
  EXPECT_EQ(store(tiers, *id, contents(kPage, 9)), 0);
  std::vector<std::byte> found;
  EXPECT_EQ(load(tiers, *id, found), 0);
  const int descriptor = spool_descriptor();
  ASSERT_GE(descriptor, 0);
  // Direct I/O takes whole pages that begin on one.
  alignas(4096) static std::byte other[4096]{};
  ASSERT_EQ(::pwrite(descriptor, other, sizeof other, 0), 4096) << std::strerror(errno);
  EXPECT_EQ(load(tiers, *id, found), EBADMSG);
}

TEST_P(TieredStoreTest, ARefusalSaysWhatIsShort) {
  TieredStore tiers(options(kPage, kPage), transfers());
  EXPECT_EQ(tiers.full_reason(), "");
  EXPECT_FALSE(tiers.reserve(kMiB).has_value());
  EXPECT_THAT(tiers.full_reason(),
              testing::HasSubstr("host memory has no room: need 1 MiB, have 4 KiB of 4 KiB"));
  EXPECT_THAT(tiers.full_reason(), testing::HasSubstr("need 1 MiB"));
  EXPECT_EQ(tiers.statistics().refused, 1U);
  EXPECT_EQ(tiers.usage().places, 0U);
}

TEST_P(TieredStoreTest, ACallOutOfOrderIsAnInternalError) {
  TieredStore tiers(options(kMiB, kMiB), transfers());
  const auto id = tiers.reserve(kPage);
  std::vector<std::byte> memory(kPage.count);
  const auto never = [](int) { ADD_FAILURE(); };
  EXPECT_THROW(tiers.load(*id, memory.data(), never), InternalError) << "nothing is stored";
  EXPECT_EQ(store(tiers, *id, memory), 0);
  EXPECT_THROW(tiers.store(*id, memory.data(), never), InternalError) << "it is stored already";
  tiers.drop(*id);
  EXPECT_THROW(tiers.drop(*id), InternalError);
  EXPECT_THROW(tiers.load(*id, memory.data(), never), InternalError);
}

INSTANTIATE_TEST_SUITE_P(Methods, TieredStoreTest, testing::ValuesIn(methods()), name_of);

}  // namespace
}  // namespace spillway::runtime
