// SPDX-License-Identifier: Apache-2.0
// Storages that begin some lines into a page: what leaves and comes back is theirs to the byte, and
// moves in place.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/memory/device_memory.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"
#include "spillway/testing/fake_framework.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;
using spillway::testing::FakeStorage;

constexpr ArenaOptions kColoured{.reservation = kGiB, .minimum = kMiB * 256};
constexpr Bytes kBytes{200'000};
constexpr std::size_t kMany = 20;  // more than there are colours

/// Counts transfers that could not move in place.
class WatchedTransfers final : public Transfers {
 public:
  explicit WatchedTransfers(std::size_t& staged) : staged_(staged) {}
  TransferId submit(Transfer transfer, TransferDone done) override {
    const auto address = reinterpret_cast<std::uintptr_t>(transfer.memory);
    if (address % kExtentGranule != 0 || transfer.length % kExtentGranule != 0) ++staged_;
    return pool_.submit(transfer, std::move(done));
  }
  bool cancel(TransferId id) override { return pool_.cancel(id); }
  bool hurry(TransferId id) override { return pool_.hurry(id); }
  void drain() override { pool_.drain(); }
  void before_fork() override { pool_.before_fork(); }
  [[nodiscard]] IoMethod method() const override { return pool_.method(); }

 private:
  std::size_t& staged_;
  TransferPool pool_;
};

class MoverColoursTest : public ::testing::Test {
 public:
  ~MoverColoursTest() override {
    while (!mover_.live().empty()) mover_.die(*mover_.live().back());
    for (void* owner : remains_.owners) framework_.release(owner);
  }

 protected:
  void fill(const MoverOptions& options, Bytes disk_budget = kMiB * 64) {
    const SpoolOptions spool{::testing::TempDir(), disk_budget, {}};
    mover_.configure(options, std::make_shared<Spool>(spool),
                     std::make_unique<WatchedTransfers>(staged_));
    for (std::size_t i = 0; i < kMany; ++i) storages_.push_back(&make(i));
  }
  void evict_all() {
    for (FakeStorage* storage : storages_) {
      mover_.evict(*storage->record);
      while (mover_.in_flight() != 0) settled_.wait(lock_);
    }
    memory_.release_idle();
  }
  void expect_all_on(ResidencyState wanted) {
    for (const FakeStorage* storage : storages_) EXPECT_EQ(storage->record->state.load(), wanted);
  }
  void expect_all_come_back() {
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      while (mover_.request(*storages_[i]->record, Access::kRead, Overbooking::kAllow).outcome ==
             Mover::Outcome::kPending) {
        settled_.wait(lock_);
      }
      EXPECT_TRUE(storages_[i]->holds(i)) << i;
    }
  }

  std::mutex mutex_;
  std::condition_variable settled_;
  std::size_t staged_ = 0;
  DeviceMemory memory_{kMiB * 64, kColoured};
  spillway::testing::FakeFramework framework_;
  Remains remains_;
  HostMemory host_;
  Mover mover_{mutex_, settled_, memory_, host_, framework_, remains_};
  std::unique_lock<std::mutex> lock_{mutex_};
  std::vector<FakeStorage*> storages_;

 private:
  FakeStorage& make(std::uint64_t seed) {
    const Allocation made = memory_.allocate(kBytes, Overbooking::kAllow);
    auto* storage = new FakeStorage;
    storage->pointer = made.pointer;
    storage->bytes = kBytes.count;
    storage->record = &mover_.create(*made.block, kBytes);
    storage->record->owner.store(storage);
    storage->fill(seed);
    return *storage;
  }

 protected:
  static std::uint64_t lead(const FakeStorage& storage) {
    return as_block(*storage.record->block).lead();
  }
};

TEST_F(MoverColoursTest, GoToDiskAndComeBackInPlace) {
  fill({});
  evict_all();
  expect_all_on(ResidencyState::kOnDisk);
  expect_all_come_back();
  EXPECT_EQ(staged_, 0U);
}

TEST_F(MoverColoursTest, GoToTheHostAndComeBack) {
  fill({.host_budget = kMiB * 64});
  evict_all();
  expect_all_on(ResidencyState::kOnHost);
  expect_all_come_back();
}

TEST_F(MoverColoursTest, GoOnFromTheHostToTheDisk) {
  fill({.host_budget = kMiB});
  for (int i = 0; i < 2; ++i) evict_all();  // the first evictions wait for room on the host
  EXPECT_NE(mover_.spool()->used_bytes(), Bytes{0});
  expect_all_come_back();
  EXPECT_EQ(staged_, 0U);
}

TEST_F(MoverColoursTest, AreVerifiedByTheirOwnBytesAlone) {
  fill({.host_budget = {}, .verify = true});
  evict_all();
  expect_all_come_back();
  for (const FakeStorage* storage : storages_) {
    // Before the storage's bytes, or its first.
    *memory_.copy_range(*storage->record->block).begin = std::byte{0x5a};
    if (lead(*storage) == 0) *storage->pointer = std::byte{0x5a};
  }
  mover_.configure({.host_budget = {}, .verify = true}, nullptr);
  evict_all();
  std::uint64_t without_lead = 0;
  for (const FakeStorage* s : storages_) without_lead += lead(*s) == 0 ? 1U : 0U;
  EXPECT_EQ(mover_.statistics().undeclared_writes, without_lead);
}

TEST_F(MoverColoursTest, AreReadInAForkedChild) {
  fill({.host_budget = kMiB});
  for (int i = 0; i < 2; ++i) evict_all();
  mover_.transfers().before_fork();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    mover_.abandon_in_child();
    int wrong = 0;
    for (std::size_t i = 0; i < kMany; ++i) {
      StorageRecord& record = *storages_[i]->record;
      const bool here = record.state.load() == ResidencyState::kResident;
      if (!here && !mover_.read_in_child(record)) ++wrong;
      if (!storages_[i]->holds(i)) ++wrong;
    }
    ::_exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "storages that could not be read or hold other bytes";
}

}  // namespace
}  // namespace spillway::runtime
