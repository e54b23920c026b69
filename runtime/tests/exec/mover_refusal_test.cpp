// SPDX-License-Identifier: Apache-2.0
// The addresses that are given while addresses are shown: none where bytes could be read that are
// not the storage's.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "spillway/base/fault.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/memory/device_memory.hpp"
#include "spillway/testing/fake_framework.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;
using spillway::testing::FakeStorage;
using Outcome = Mover::Outcome;

constexpr std::uint64_t kBytes = 200'000;

class MoverRefusalTest : public ::testing::TestWithParam<std::uint64_t> {
 public:
  MoverRefusalTest() {
    const SpoolOptions spool{::testing::TempDir(), kMiB * 64, {}};
    mover_.configure({}, std::make_shared<Spool>(spool));
    const Allocation made = memory_.allocate({kBytes}, Overbooking::kAllow);
    a_->pointer = made.pointer;
    a_->bytes = kBytes;
    a_->record = &mover_.create(*made.block, {kBytes});
    a_->record->owner.store(a_);
    a_->fill(1);
  }
  ~MoverRefusalTest() override {
    arm_faults("");
    wait();
    mover_.die(*a_->record);
    for (void* owner : remains_.owners) framework_.release(owner);
  }

 protected:
  enum class Given : std::uint8_t { kMemory, kAddress, kNothing };
  [[nodiscard]] Given given() const {
    if (a_->accessible.load()) return Given::kMemory;
    return a_->shown.load() ? Given::kAddress : Given::kNothing;
  }
  void wait() {
    while (mover_.in_flight() != 0) settled_.wait(lock_);
  }
  void evict() {
    mover_.evict(*a_->record);
    wait();
    memory_.release_idle();
    ASSERT_EQ(a_->record->state.load(), ResidencyState::kOnDisk);
  }
  Outcome request(Access access) {
    return mover_.request(*a_->record, access, Overbooking::kAllow).outcome;
  }

  std::mutex mutex_;
  std::condition_variable settled_;
  DeviceMemory memory_{kMiB * 64, ArenaOptions{.reservation = kGiB,
                                               .minimum = kMiB * 256,
                                               .colouring = Colouring::kNo,
                                               .mappings = GetParam()}};
  spillway::testing::FakeFramework framework_;
  Remains remains_;
  HostMemory host_;
  Mover mover_{mutex_, settled_, memory_, host_, framework_, remains_};
  std::unique_lock<std::mutex> lock_{mutex_};  // so nothing completes unless a test waits
  FakeStorage* a_ = new FakeStorage;           // the mover's, from now on
};

using ProtectedMemoryTest = MoverRefusalTest;
INSTANTIATE_TEST_SUITE_P(AsManyMappingsAsTheKernelAllows, ProtectedMemoryTest,
                         ::testing::Values(0));

TEST_P(ProtectedMemoryTest, GivesTheAddressOfWhatIsAwayOnlyWhileAsked) {
  evict();
  EXPECT_EQ(given(), Given::kNothing);
  mover_.show_addresses(true);
  EXPECT_EQ(given(), Given::kAddress);
  mover_.show_addresses(false);
  EXPECT_EQ(given(), Given::kNothing);
}

TEST_P(ProtectedMemoryTest, GivesNothingWhileTheBytesAreOnTheirWay) {
  mover_.show_addresses(true);
  evict();
  ASSERT_EQ(request(Access::kWrite), Outcome::kPending);
  EXPECT_EQ(given(), Given::kNothing);
  wait();
  ASSERT_EQ(request(Access::kWrite), Outcome::kReady);
  EXPECT_EQ(given(), Given::kMemory);
  EXPECT_TRUE(a_->holds(1));
}

TEST_P(ProtectedMemoryTest, GivesTheAddressOfWhatLeavesMeanwhile) {
  mover_.show_addresses(true);
  evict();
  EXPECT_EQ(given(), Given::kAddress);
  ASSERT_EQ(request(Access::kRead), Outcome::kPending);
  wait();
  evict();  // without a copy
  EXPECT_EQ(mover_.statistics().clean_evicted, Bytes{kBytes});
  EXPECT_EQ(given(), Given::kAddress);
}

TEST_P(ProtectedMemoryTest, GivesTheAddressAgainAfterAFetchThatFailed) {
  mover_.show_addresses(true);
  evict();
  arm_faults("spool.read=EIO@1+");
  ASSERT_EQ(request(Access::kRead), Outcome::kPending);
  wait();
  EXPECT_EQ(given(), Given::kAddress);
}

using UnprotectedMemoryTest = MoverRefusalTest;
INSTANTIATE_TEST_SUITE_P(NoMappingsLeft, UnprotectedMemoryTest, ::testing::Values(1));

TEST_P(UnprotectedMemoryTest, GivesNothingOfWhatIsAway) {
  mover_.show_addresses(true);
  evict();
  EXPECT_EQ(given(), Given::kNothing) << "the range reads as zeros";
  ASSERT_EQ(request(Access::kRead), Outcome::kPending);
  wait();
  EXPECT_EQ(given(), Given::kMemory);
}

}  // namespace
}  // namespace spillway::runtime
