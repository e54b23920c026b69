// SPDX-License-Identifier: Apache-2.0
// The promises of every tier below the device, whatever it keeps copies in: one typed suite. Each
// implementation is reached through a Tier, made with its limit:
//
//   Place                   where a copy is
//   allocate(bytes)         a place, or nothing where there is no room
//   free(place)
//   write(place, from, n)   n bytes to the beginning of it
//   read(place, to, n)      and back
//   used()                  bytes that are taken
//   kNoRoom                 the fault of a machine that has none
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "spillway/base/fault.hpp"
#include "spillway/runtime/memory/host_memory.hpp"
#include "spillway/runtime/store/tiered_store.hpp"
#include "spillway/runtime/transfer/spool.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"

namespace spillway::runtime {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr Bytes kPageBytes{kPage};
constexpr Bytes kLimit = kMiB * 4;

class HostTier {
 public:
  struct Place {
    std::byte* memory;
    Bytes bytes;
  };
  static constexpr const char* kNoRoom = "host.allocate=ENOMEM@1+";

  explicit HostTier(Bytes limit) { memory_.set_limit(limit); }
  std::optional<Place> allocate(Bytes bytes) {
    std::byte* memory = memory_.allocate(bytes);
    return memory != nullptr ? std::optional(Place{memory, bytes}) : std::nullopt;
  }
  void free(const Place& place) { static_cast<void>(memory_.give_back(place.memory, place.bytes)); }
  void write(const Place& place, const std::byte* from, std::uint64_t bytes) {
    std::memcpy(place.memory, from, bytes);
  }
  void read(const Place& place, std::byte* to, std::uint64_t bytes) {
    std::memcpy(to, place.memory, bytes);
  }
  [[nodiscard]] Bytes used() const { return memory_.budget().used(); }

 private:
  HostMemory memory_;
};

class DiskTier {
 public:
  using Place = Extent;
  static constexpr const char* kNoRoom = "spool.grow=ENOSPC@1+";

  explicit DiskTier(Bytes limit)
      : spool_({.directory = testing::TempDir(), .budget = limit, .warn = {}}) {}
  std::optional<Place> allocate(Bytes bytes) { return spool_.allocate(bytes); }
  void free(const Place& place) { spool_.free(place); }
  void write(const Place& place, const std::byte* from, std::uint64_t bytes) {
    move(place, const_cast<std::byte*>(from), bytes, Direction::kOut);
  }
  void read(const Place& place, std::byte* to, std::uint64_t bytes) {
    move(place, to, bytes, Direction::kIn);
  }
  [[nodiscard]] Bytes used() const { return spool_.used_bytes(); }

 private:
  void move(const Place& place, std::byte* memory, std::uint64_t bytes, Direction direction) {
    const TransferResult result = transfers_.run_here({.direction = direction,
                                                       .memory = memory,
                                                       .extent = place,
                                                       .descriptor = spool_.descriptor(),
                                                       .length = bytes});
    EXPECT_EQ(result.error, 0);
    EXPECT_EQ(result.bytes, bytes);
  }

  Spool spool_;
  TransferPool transfers_;
};

// Both through the store that adapters use. `kDisk`: it has no host memory.
template <bool kDisk>
class StoreTier {
 public:
  using Place = StoredId;
  static constexpr const char* kNoRoom = "host.allocate=ENOMEM@1+, spool.grow=ENOSPC@1+";

  // A budget of a page is the least a spool can have; its one page is taken beforehand.
  explicit StoreTier(Bytes limit)
      : store_({.host_budget = kDisk ? Bytes{} : limit,
                .spool = {.directory = testing::TempDir(),
                          .budget = kDisk ? limit : kPageBytes,
                          .warn = {}}},
               make_transfers(IoMethod::kThreads)),
        before_(kDisk ? 0 : 1) {
    if (!kDisk) store_.reserve(kPageBytes, Tier::kDisk);
  }
  std::optional<Place> allocate(Bytes bytes) { return store_.reserve(bytes); }
  void free(const Place& place) { store_.drop(place); }
  void write(const Place& place, const std::byte* from, std::uint64_t bytes) {
    // A place is stored whole.
    std::vector<std::byte> whole(store_.bytes(place).count);
    std::memcpy(whole.data(), from, bytes);
    int error = -1;
    store_.store(place, whole.data(), [&error](int result) { error = result; });
    store_.drain();
    EXPECT_EQ(error, 0);
  }
  void read(const Place& place, std::byte* to, std::uint64_t bytes) {
    std::vector<std::byte> whole(store_.bytes(place).count);
    int error = -1;
    store_.load(place, whole.data(), [&error](int result) { error = result; });
    store_.drain();
    EXPECT_EQ(error, 0);
    std::memcpy(to, whole.data(), bytes);
  }
  [[nodiscard]] Bytes used() const {
    const StoreUsage usage = store_.usage();
    return usage.host + usage.disk - Bytes{before_ * kPage};
  }

 private:
  TieredStore store_;
  std::uint64_t before_;
};

template <typename Tier>
class LowerTierConformanceTest : public testing::Test {
 public:
  ~LowerTierConformanceTest() override { arm_faults(""); }

 protected:
  struct Copy {
    typename Tier::Place place;
    std::uint64_t bytes;
    std::uint64_t seed;
  };

  static std::vector<std::byte> contents(std::uint64_t bytes, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> result(bytes);
    for (std::byte& byte : result) byte = static_cast<std::byte>(random());
    return result;
  }
  static Bytes in_pages(std::uint64_t bytes) { return round_up({bytes}, kPage); }

  void put(const typename Tier::Place& place, std::uint64_t bytes, std::uint64_t seed) {
    const std::vector<std::byte> given = contents(bytes, seed);
    tier_.write(place, given.data(), bytes);
    copies_.push_back({place, bytes, seed});
  }
  void expect_intact(const Copy& copy) {
    std::vector<std::byte> found(copy.bytes);
    tier_.read(copy.place, found.data(), copy.bytes);
    EXPECT_EQ(found, contents(copy.bytes, copy.seed)) << copy.bytes << " B";
  }
  void take_away(std::size_t index) {
    expect_intact(copies_[index]);
    tier_.free(copies_[index].place);
    std::swap(copies_[index], copies_.back());
    copies_.pop_back();
  }
  [[nodiscard]] Bytes expected_use() const {
    Bytes total{};
    for (const Copy& copy : copies_) total += in_pages(copy.bytes);
    return total;
  }

  Tier tier_{kLimit};
  std::vector<Copy> copies_;
  std::mt19937_64 random_{11};
};

TYPED_TEST_SUITE_P(LowerTierConformanceTest);

TYPED_TEST_P(LowerTierConformanceTest, CopiesKeepTheirBytesAmongNeighboursThatComeAndGo) {
  int refused = 0;
  for (int turn = 0; turn < 600; ++turn) {
    const std::uint64_t bytes = 1 + this->random_() % (kLimit.count / 12);
    if (const auto place = this->tier_.allocate({bytes})) {
      this->put(*place, bytes, this->random_());
    } else {
      ++refused;
      ASSERT_FALSE(this->copies_.empty()) << "an empty tier has room";
      this->take_away(this->random_() % this->copies_.size());
    }
    EXPECT_EQ(this->tier_.used(), this->expected_use());
    EXPECT_LE(this->tier_.used(), kLimit);
  }
  EXPECT_GT(refused, 100) << "the limit was hardly reached";
  while (!this->copies_.empty()) this->take_away(0);
  EXPECT_EQ(this->tier_.used(), Bytes{0});
}

TYPED_TEST_P(LowerTierConformanceTest, WhatDoesNotFitIsRefusedAndTakesNothing) {
  const auto most = this->tier_.allocate(kLimit - kPageBytes);
  ASSERT_TRUE(most.has_value());
  this->put(*most, kLimit.count - kPage, 1);
  EXPECT_FALSE(this->tier_.allocate({kPage + 1}).has_value());
  EXPECT_EQ(this->tier_.used(), kLimit - kPageBytes);
  const auto rest = this->tier_.allocate(kPageBytes);
  ASSERT_TRUE(rest.has_value());
  this->put(*rest, kPage, 2);
  EXPECT_FALSE(this->tier_.allocate({1}).has_value());
  this->expect_intact(this->copies_.front());
  while (!this->copies_.empty()) this->take_away(0);
}

TYPED_TEST_P(LowerTierConformanceTest, OnceEmptyAllOfItIsThereAgain) {
  for (int round = 0; round < 5; ++round) {
    while (const auto place = this->tier_.allocate({kPage * (1 + this->random_() % 40)})) {
      this->put(*place, kPage, this->random_());
    }
    while (!this->copies_.empty()) this->take_away(this->random_() % this->copies_.size());
    const auto whole = this->tier_.allocate(kLimit);
    ASSERT_TRUE(whole.has_value()) << "round " << round;
    this->tier_.free(*whole);
  }
}

TYPED_TEST_P(LowerTierConformanceTest, AMachineWithoutRoomTakesNothingFromTheLimit) {
  arm_faults(TypeParam::kNoRoom);
  EXPECT_FALSE(this->tier_.allocate(kPageBytes).has_value());
  EXPECT_EQ(this->tier_.used(), Bytes{0});
  arm_faults("");
  const auto whole = this->tier_.allocate(kLimit);
  ASSERT_TRUE(whole.has_value());
  this->put(*whole, kLimit.count, 3);
  this->take_away(0);
}

REGISTER_TYPED_TEST_SUITE_P(LowerTierConformanceTest,
                            CopiesKeepTheirBytesAmongNeighboursThatComeAndGo,
                            WhatDoesNotFitIsRefusedAndTakesNothing, OnceEmptyAllOfItIsThereAgain,
                            AMachineWithoutRoomTakesNothingFromTheLimit);
INSTANTIATE_TYPED_TEST_SUITE_P(Host, LowerTierConformanceTest, HostTier);
INSTANTIATE_TYPED_TEST_SUITE_P(Disk, LowerTierConformanceTest, DiskTier);
INSTANTIATE_TYPED_TEST_SUITE_P(StoreOnHost, LowerTierConformanceTest, StoreTier<false>);
INSTANTIATE_TYPED_TEST_SUITE_P(StoreOnDisk, LowerTierConformanceTest, StoreTier<true>);

}  // namespace
}  // namespace spillway::runtime
