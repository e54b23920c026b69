// SPDX-License-Identifier: Apache-2.0
// The store below a framework: what is stored comes back, whatever the disk does in between.
#include "spillway/runtime/store/tiered_store.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../resident_pages.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"

namespace spillway::runtime {
namespace {

constexpr Bytes kPage{4096};

std::vector<std::byte> contents(Bytes bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> result(bytes.count);
  for (std::byte& byte : result) byte = static_cast<std::byte>(random());
  return result;
}

class TieredStoreTest : public testing::TestWithParam<IoMethod> {
 public:
  ~TieredStoreTest() override { arm_faults(""); }

 protected:
  static TieredStoreOptions options(Bytes host, Bytes disk) {
    return {.host_budget = host,
            .spool = {.directory = testing::TempDir(), .budget = disk, .warn = {}}};
  }
  static std::unique_ptr<Transfers> transfers() { return make_transfers(GetParam()); }

  static int store(TieredStore& store, StoredId id, const std::vector<std::byte>& from) {
    std::atomic<int> error{-1};
    store.store(id, from.data(), [&error](int result) { error = result; });
    store.drain();
    return error;
  }
  static int load(TieredStore& store, StoredId id, std::vector<std::byte>& to) {
    to.assign(store.bytes(id).count, std::byte{0xEE});
    std::atomic<int> error{-1};
    store.load(id, to.data(), [&error](int result) { error = result; });
    store.drain();
    return error;
  }
};

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

TEST_P(TieredStoreTest, AMappedPlaceIsReadAndWrittenWhereItIsWhateverWasPutAside) {
  TieredStore tiers(options(Bytes{}, kMiB), transfers());
  constexpr Bytes kBytes{kPage.count * 20 + 5};
  const auto place = tiers.map(kBytes);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  const auto given = contents(kBytes, 3);
  std::ranges::copy(given, data);
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const AddressRange range{begin, begin + kBytes.count};
  EXPECT_GE(resident_bytes(range), kPage * 20);
  EXPECT_EQ(tiers.put_aside(id), 0);
  EXPECT_EQ(resident_bytes(range), Bytes{});
  data[7] = std::byte{77};  // one page comes by itself
  EXPECT_LT(resident_bytes(range), kPage * 21);
  EXPECT_EQ(tiers.bring(id, Access::kRead), 0);
  EXPECT_GE(resident_bytes(range), kPage * 21);
  data[8] = std::byte{88};
  tiers.give_back(id);
  EXPECT_EQ(resident_bytes(range), Bytes{});
  EXPECT_EQ(data[7], std::byte{77});
  EXPECT_EQ(data[8], std::byte{88});
  EXPECT_TRUE(std::equal(given.begin() + 9, given.end(), data + 9));
  tiers.drop(id);
  EXPECT_EQ(tiers.usage().disk, Bytes{});
}

// Of a mapping, that the kernel has in memory, be they mapped or not.
std::size_t cached_pages(std::byte* data, Bytes bytes) {
  std::vector<unsigned char> pages((bytes.count + kPage.count - 1) / kPage.count);
  EXPECT_EQ(::mincore(data, bytes.count, pages.data()), 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; }));
}

TEST_P(TieredStoreTest, WhatIsWrittenAsideIsThereAndInMemoryNoMore) {
  TieredStore tiers(options(Bytes{}, kMiB * 8), transfers());
  constexpr Bytes kBytes{kMiB.count * 2 + kPage.count + 5};
  const auto place = tiers.map(kBytes);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  std::memset(data, 1, kPage.count * 3);
  const auto given = contents(kBytes, 3);
  EXPECT_EQ(tiers.write_aside(id, given.data()), 0);
  EXPECT_EQ(cached_pages(data, kBytes), 0U);
  EXPECT_TRUE(std::equal(given.begin(), given.end(), data));
  EXPECT_NE(cached_pages(data, kBytes), 0U);
  EXPECT_EQ(tiers.statistics().stored_on_disk, kBytes);
}

TEST_P(TieredStoreTest, WhatCannotBeWrittenAsideIsThereAsAWhole) {
  TieredStore tiers(options(Bytes{}, kMiB * 8), transfers());
  constexpr Bytes kBytes{kMiB.count * 3 + 5};
  const auto place = tiers.map(kBytes);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  EXPECT_EQ(tiers.write_aside(id, contents(kBytes, 3).data()), 0);
  const auto given = contents(kBytes, 4);
  arm_faults("spool.write=ENOSPC@2");
  EXPECT_EQ(tiers.write_aside(id, given.data()), ENOSPC);
  EXPECT_TRUE(std::equal(given.begin(), given.end(), data));
  // What follows the first part, to the last page: whatever of it was on its way may have failed.
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  EXPECT_EQ(dirty_bytes({begin, begin + kBytes.count}), Bytes{kMiB.count * 5 / 2 + kPage.count});
}

// Bytes that this process had the disk read; nothing where the kernel does not count them.
std::optional<std::uint64_t> bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::uint64_t count = 0;
  while (file >> name >> count) {
    if (name == "read_bytes:") return count;
  }
  return std::nullopt;
}

TEST_P(TieredStoreTest, WhatIsOverwrittenIsNotReadFirst) {
  if (!bytes_read()) GTEST_SKIP() << "this kernel does not count what a process reads";
  TieredStore tiers(options(Bytes{}, kMiB * 8), transfers());
  constexpr Bytes kBytes{kMiB.count * 4};
  const auto place = tiers.map(kBytes);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  std::ranges::copy(contents(kBytes, 1), data);
  for (const bool aside : {false, true}) {
    ASSERT_EQ(tiers.put_aside(id), 0);
    const auto given = contents(kBytes, aside ? 2 : 3);
    const std::uint64_t before = bytes_read().value();
    if (aside) {
      EXPECT_EQ(tiers.write_aside(id, given.data()), 0);
    } else {
      tiers.write(id, given.data());
    }
    // Others of this process read a little.
    EXPECT_LT(bytes_read().value() - before, kBytes.count / 8);
    EXPECT_TRUE(std::equal(given.begin(), given.end(), data));
  }
}

std::uint64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt);
}

TEST_P(TieredStoreTest, WhatIsBroughtToBeChangedTakesNoFaultWhenItIs) {
  TieredStore tiers(options(Bytes{}, kMiB * 8), transfers());
  constexpr Bytes kBytes{kMiB.count * 4};
  const auto place = tiers.map(kBytes);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  std::memset(data, 1, kBytes.count);
  ASSERT_EQ(tiers.put_aside(id), 0);
  ASSERT_EQ(tiers.bring(id, Access::kChange), 0);
  const std::uint64_t before = page_faults();
  for (std::uint64_t at = 0; at < kBytes.count; at += kPage.count) data[at] = std::byte{2};
  EXPECT_LT(page_faults() - before, kBytes.count / kPage.count / 8);
  ASSERT_EQ(tiers.put_aside(id), 0);
  EXPECT_EQ(data[kPage.count], std::byte{2});
  EXPECT_EQ(data[kPage.count + 1], std::byte{1});
}

// A folio of the page cache that held the end of one and the begin of the other put old bytes over
// what had been written past it.
TEST_P(TieredStoreTest, WhatLiesBesideAMappedPlaceIsWhatWasStored) {
  constexpr Bytes kBytes{kMiB.count * 9 + kPage.count * 9};
  TieredStore tiers(options(Bytes{}, kMiB * 40), transfers());
  const auto before = tiers.map(kBytes);
  const auto copy = tiers.reserve({kMiB.count * 2 + kPage.count * 10});
  const auto after = tiers.map(kBytes);
  ASSERT_TRUE(before && copy && after);
  std::atomic<bool> ends{false};
  const auto change = [&](const TieredStore::Mapped& place) {
    for (int round = 0; !ends; ++round) {
      EXPECT_EQ(tiers.bring(place.id, Access::kRead), 0);
      for (std::uint64_t at = 0; at < kBytes.count; at += kPage.count) {
        place.data[at] = static_cast<std::byte>(round);
      }
      const int error = round % 4 == 0 ? tiers.put_aside(place.id) : 0;
      EXPECT_EQ(error, 0);
    }
  };
  std::thread first([&] { change(*before); });
  std::thread second([&] { change(*after); });
  StoredId id = *copy;
  std::vector<std::byte> found;
  for (int round = 0; round < 60; ++round) {
    const std::vector<std::byte> given(tiers.bytes(id).count, static_cast<std::byte>(round));
    EXPECT_EQ(store(tiers, id, given), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    EXPECT_EQ(load(tiers, id, found), 0);
    EXPECT_TRUE(found == given) << round;
    tiers.drop(id);
    id = tiers.reserve({given.size()}).value();
  }
  ends = true;
  first.join();
  second.join();
}

TEST_P(TieredStoreTest, CopiesAndMappedPlacesHaveOneBudget) {
  TieredStore tiers(options(Bytes{}, kMiB * 8), transfers());
  const auto copy = tiers.reserve(kMiB * 3);
  const auto mapped = tiers.map(kMiB * 4);
  ASSERT_TRUE(copy && mapped);
  EXPECT_EQ(tiers.usage().disk, kMiB * 7);
  EXPECT_FALSE(tiers.map(kMiB * 4));
  EXPECT_FALSE(tiers.reserve(kMiB * 5));
  EXPECT_THAT(tiers.full_reason(), testing::HasSubstr("The disk budget is spent"));
  tiers.drop(mapped->id);
  EXPECT_TRUE(tiers.map(kMiB * 4)) << "in place of the other";
}

// Where a mapping's page had no place on the disk, writing it would end the process.
TEST_P(TieredStoreTest, NothingIsMappedWhereTheFileHasNotGotItsSpace) {
  TieredStore tiers(options(Bytes{}, kMiB), transfers());
  arm_faults("spool.grow=EOPNOTSUPP@1");
  EXPECT_FALSE(tiers.map(kPage));
  EXPECT_THAT(tiers.full_reason(), testing::HasSubstr("cannot reserve space"));
  EXPECT_EQ(tiers.usage().disk, Bytes{});
}

TEST_P(TieredStoreTest, OnTheHostWhatIsWrittenAsideIsInHostMemory) {
  TieredStore tiers(options(kMiB, kMiB), transfers());
  const auto place = tiers.map(kPage);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  const auto given = contents(kPage, 4);
  EXPECT_EQ(tiers.write_aside(id, given.data()), 0);
  EXPECT_TRUE(std::equal(given.begin(), given.end(), data));
  EXPECT_EQ(tiers.statistics().stored_on_disk, Bytes{});
}

TEST_P(TieredStoreTest, WhatCannotBePutAsideStaysAndIsTold) {
  TieredStore tiers(options(Bytes{}, kMiB), transfers());
  const auto place = tiers.map(kPage);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  data[9] = std::byte{9};
  arm_faults("spool.write=ENOSPC@1");
  EXPECT_EQ(tiers.put_aside(id), ENOSPC);
  EXPECT_EQ(data[9], std::byte{9});
  arm_faults("spool.read=EIO@1");
  EXPECT_EQ(tiers.bring(id, Access::kRead), EIO);
  EXPECT_EQ(tiers.statistics().failed, 2U);
}

TEST_P(TieredStoreTest, PagesWhoseWriteBackFailedAreWrittenAgain) {
  TieredStore tiers(options(Bytes{}, kMiB), transfers());
  constexpr Bytes kBytes{kPage.count * 3};
  const auto place = tiers.map(kBytes);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  const auto given = contents(kBytes, 3);
  std::ranges::copy(given, data);
  arm_faults("spool.write=EIO@1");
  EXPECT_EQ(tiers.put_aside(id), EIO);
  // After a failed write-back the kernel counts them as clean, and may drop them.
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  EXPECT_EQ(dirty_bytes({begin, begin + kBytes.count}), kBytes);
  EXPECT_TRUE(std::ranges::equal(given, std::span(data, kBytes.count)));
  EXPECT_EQ(tiers.put_aside(id), 0);
  EXPECT_TRUE(std::ranges::equal(given, std::span(data, kBytes.count)));
}

TEST_P(TieredStoreTest, OnTheHostAMappedPlaceStays) {
  TieredStore tiers(options(kMiB, kMiB), transfers());
  const auto place = tiers.map(kPage);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  data[9] = std::byte{9};
  EXPECT_EQ(tiers.put_aside(id), 0);
  EXPECT_EQ(tiers.bring(id, Access::kRead), 0);
  EXPECT_EQ(data[9], std::byte{9});
  EXPECT_EQ(tiers.statistics().stored_on_disk, Bytes{});
}

TEST_P(TieredStoreTest, WhatAForkedChildWritesIntoAMappedPlaceIsItsOwn) {
  TieredStore tiers(options(Bytes{}, kMiB), transfers());
  const auto place = tiers.map(kPage);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  data[9] = std::byte{9};
  tiers.before_fork();
  const pid_t child = ::fork();
  tiers.after_fork(child == 0);
  if (child == 0) {
    const bool seen = data[9] == std::byte{9};
    data[9] = std::byte{1};
    tiers.give_back(id);
    const bool put = tiers.put_aside(id) == 0;
    const bool kept = data[9] == std::byte{1};
    const std::vector<std::byte> given(kPage.count, std::byte{2});
    const bool written = tiers.write_aside(id, given.data()) == 0 && data[9] == std::byte{2};
    const std::vector<std::byte> more(kPage.count, std::byte{3});
    tiers.write(id, more.data());
    const bool again = data[9] == std::byte{3};
    ::_exit(seen && put && kept && written && again ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(data[9], std::byte{9});
}

// Both count the file's extents by themselves from then on.
TEST_P(TieredStoreTest, AForkedChildGetsNothingOfItsParentsFile) {
  TieredStore tiers(options(Bytes{}, kMiB), transfers());
  const auto before = tiers.map(kPage);
  ASSERT_TRUE(before);
  tiers.before_fork();
  const pid_t child = ::fork();
  tiers.after_fork(child == 0);
  if (child == 0) {
    const auto place = tiers.map(kPage);
    if (place) std::memset(place->data, 7, kPage.count);
    ::_exit(!place && !tiers.reserve(kPage) && !tiers.full_reason().empty() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const auto after = tiers.map(kPage);
  ASSERT_TRUE(after);
  EXPECT_NE(after->data[0], std::byte{7});
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

std::vector<IoMethod> methods() {
  return io_uring_refusal().empty() ? std::vector{IoMethod::kThreads, IoMethod::kUring}
                                    : std::vector{IoMethod::kThreads};
}

std::string name_of(const testing::TestParamInfo<IoMethod>& method) {
  return std::string(to_string(method.param));
}

INSTANTIATE_TEST_SUITE_P(Methods, TieredStoreTest, testing::ValuesIn(methods()), name_of);

}  // namespace
}  // namespace spillway::runtime
