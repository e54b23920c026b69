// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/pinned_host_memory.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "device_fixture.hpp"

namespace spillway::runtime {
namespace {

using ::testing::HasSubstr;

class PinnedHostMemoryTest : public DeviceFixture {
 protected:
  static constexpr Bytes kSlab{std::uint64_t{64} << 10};
  static constexpr Bytes kPage{4096};

  PinnedHostMemory memory_{clock_, kSlab * 2 + kPage, kSlab};
};

TEST_F(PinnedHostMemoryTest, CopiesShareASlabAndGiveTheirPlaceToOthers) {
  std::byte* const first = memory_.allocate(kPage);
  std::byte* const second = memory_.allocate(kPage * 3);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(second, first + kPage.count);
  EXPECT_EQ(memory_.budget().used(), kSlab) << "the whole slab is page-locked";
  EXPECT_EQ(memory_.used(), kPage * 4);
  std::memset(first, 1, (kPage * 4).count);
  EXPECT_EQ(memory_.give_back(first, kPage), nullptr) << "slabs are kept";
  EXPECT_EQ(memory_.allocate({100}), first);
  EXPECT_TRUE(memory_.refusal().empty());
}

TEST_F(PinnedHostMemoryTest, TheBudgetHoldsToItsLastPage) {
  std::vector<std::byte*> pages;
  while (std::byte* const page = memory_.allocate(kPage)) pages.push_back(page);
  EXPECT_EQ(pages.size(), 33U) << "two slabs of 16 and one of what is left";
  EXPECT_EQ(memory_.budget().used(), memory_.budget().limit());
  static_cast<void>(memory_.give_back(pages[20], kPage));
  EXPECT_EQ(memory_.allocate(kPage), pages[20]);
}

TEST_F(PinnedHostMemoryTest, WhatIsLargerThanASlabHasOneOfItsOwn) {
  EXPECT_NE(memory_.allocate(kSlab + kPage), nullptr);
  EXPECT_EQ(memory_.budget().used(), kSlab + kPage);
  EXPECT_EQ(memory_.allocate(kSlab + kPage), nullptr);
}

//   one    [held]  reads the copy
//   host   note_use(fence), give_back   allocate: not that place   release, wait   allocate: that
//   place
TEST_F(PinnedHostMemoryTest, WhatTheDeviceStillReadsIsNobodyElses) {
  std::byte* const copy = memory_.allocate(kSlab);
  HeldStream held(device_, one_);
  const Fence fence = clock_.fence(clock_.slot_of(one_));
  memory_.note_use(copy, fence);
  static_cast<void>(memory_.give_back(copy, kSlab));
  std::byte* const other = memory_.allocate(kSlab);
  EXPECT_NE(other, copy);
  EXPECT_EQ(memory_.allocate(kSlab), nullptr);
  held.release();
  clock_.wait(fence);
  EXPECT_EQ(memory_.allocate(kSlab), copy);
}

TEST_F(PinnedHostMemoryTest, WhatACopyLacksIsToldUntilItLeaves) {
  EXPECT_TRUE(memory_.could_hold(kSlab * 2));
  EXPECT_FALSE(memory_.could_hold(kSlab * 3));
  EXPECT_EQ(memory_.short_by(kSlab), Bytes{0});
  std::byte* const first = memory_.allocate(kSlab);
  std::byte* const second = memory_.allocate(kSlab);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(memory_.short_by(kPage), Bytes{0});
  EXPECT_EQ(memory_.short_by(kSlab), kSlab) << "a page is left";
  static_cast<void>(memory_.give_back(first, kSlab));
  EXPECT_EQ(memory_.short_by(kSlab), Bytes{0});
}

TEST_F(PinnedHostMemoryTest, AForkedChildHasNoneOfIt) {
  std::byte* const mine = memory_.allocate(kPage);
  ASSERT_NE(mine, nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    unsigned char resident = 0;
    const bool gone = ::mincore(mine, kPage.count, &resident) != 0 && errno == ENOMEM;
    ::_exit(gone ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::memset(mine, 1, kPage.count);
}

TEST_F(PinnedHostMemoryTest, WithoutPageLockingThereIsMemoryAndAReason) {
  device_.fail(DeviceCall::kRegisterHost, 1, ThreadDevice::kNotPermitted, true);
  ASSERT_NE(memory_.allocate(kPage), nullptr);
  EXPECT_THAT(memory_.refusal(), HasSubstr("64 KiB of memory could not be page-locked"));
  EXPECT_THAT(memory_.refusal(), HasSubstr("not permitted (800)"));
  EXPECT_THAT(memory_.refusal(), HasSubstr("ulimit -l"));
}

TEST_F(PinnedHostMemoryTest, ALostDeviceEndsInWords) {
  device_.lose();
  EXPECT_THROW(static_cast<void>(memory_.allocate(kPage)), DeviceFailure);
  EXPECT_EQ(memory_.budget().used(), Bytes{0});
}

}  // namespace
}  // namespace spillway::runtime
