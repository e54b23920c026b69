// SPDX-License-Identifier: Apache-2.0
// Places of the store that are read and written in place: mapped_file.hpp.
#include "spillway/runtime/store/tiered_store.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../in_child.hpp"
#include "../resident_pages.hpp"
#include "spillway/base/fault.hpp"
#include "tiered_store_fixture.hpp"

namespace spillway::runtime {
namespace {

using MappedPlacesTest = TieredStoreTest;

// 0 if `body` is true in a child that is forked as the store asks.
template <typename Body>
int in_child_of(TieredStore& tiers, const Body& body) {
  tiers.before_fork();
  const int status = in_child([&] {
    tiers.after_fork(true);
    return body() ? 0 : 1;
  });
  tiers.after_fork(false);
  return status;
}

TEST_P(MappedPlacesTest, AMappedPlaceIsReadAndWrittenWhereItIsWhateverWasPutAside) {
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

TEST_P(MappedPlacesTest, WhatIsWrittenAsideIsThereAndInMemoryNoMore) {
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

TEST_P(MappedPlacesTest, WhatCannotBeWrittenAsideIsThereAsAWhole) {
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

TEST_P(MappedPlacesTest, WhatIsOverwrittenIsNotReadFirst) {
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

TEST_P(MappedPlacesTest, WhatIsBroughtToBeChangedTakesNoFaultWhenItIs) {
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
TEST_P(MappedPlacesTest, WhatLiesBesideAMappedPlaceIsWhatWasStored) {
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

TEST_P(MappedPlacesTest, CopiesAndMappedPlacesHaveOneBudget) {
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
TEST_P(MappedPlacesTest, NothingIsMappedWhereTheFileHasNotGotItsSpace) {
  TieredStore tiers(options(Bytes{}, kMiB), transfers());
  arm_faults("spool.grow=EOPNOTSUPP@1");
  EXPECT_FALSE(tiers.map(kPage));
  EXPECT_THAT(tiers.full_reason(), testing::HasSubstr("cannot reserve space"));
  EXPECT_EQ(tiers.usage().disk, Bytes{});
}

TEST_P(MappedPlacesTest, OnTheHostWhatIsWrittenAsideIsInHostMemory) {
  TieredStore tiers(options(kMiB, kMiB), transfers());
  const auto place = tiers.map(kPage);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  const auto given = contents(kPage, 4);
  EXPECT_EQ(tiers.write_aside(id, given.data()), 0);
  EXPECT_TRUE(std::equal(given.begin(), given.end(), data));
  EXPECT_EQ(tiers.statistics().stored_on_disk, Bytes{});
}

TEST_P(MappedPlacesTest, WhatCannotBePutAsideStaysAndIsTold) {
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

TEST_P(MappedPlacesTest, PagesWhoseWriteBackFailedAreWrittenAgain) {
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

TEST_P(MappedPlacesTest, OnTheHostAMappedPlaceStays) {
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

TEST_P(MappedPlacesTest, WhatAForkedChildWritesIntoAMappedPlaceIsItsOwn) {
  TieredStore tiers(options(Bytes{}, kMiB), transfers());
  const auto place = tiers.map(kPage);
  ASSERT_TRUE(place);
  const auto [id, data] = *place;
  data[9] = std::byte{9};
  const int status = in_child_of(tiers, [&tiers, id = id, data = data] {
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
    const int its_child = in_child_of(tiers, [data] { return data[9] == std::byte{3}; });
    return seen && put && kept && written && again && its_child == 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(data[9], std::byte{9});
}

// Both count the file's extents by themselves from then on.
TEST_P(MappedPlacesTest, AForkedChildGetsNothingOfItsParentsFile) {
  TieredStore tiers(options(Bytes{}, kMiB), transfers());
  const auto before = tiers.map(kPage);
  ASSERT_TRUE(before);
  const int status = in_child_of(tiers, [&tiers] {
    const auto place = tiers.map(kPage);
    if (place) std::memset(place->data, 7, kPage.count);
    return !place && !tiers.reserve(kPage) && !tiers.full_reason().empty();
  });
  EXPECT_EQ(status, 0);
  const auto after = tiers.map(kPage);
  ASSERT_TRUE(after);
  EXPECT_NE(after->data[0], std::byte{7});
}

INSTANTIATE_TEST_SUITE_P(Methods, MappedPlacesTest, testing::ValuesIn(methods()), name_of);

}  // namespace
}  // namespace spillway::runtime
