// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/status_page.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "in_child.hpp"

namespace spillway::runtime {
namespace {

static_assert(!std::is_copy_constructible_v<StatusMapping>);
static_assert(!std::is_copy_assignable_v<StatusMapping>);

std::size_t claimed_slots(const StatusPage& page) {
  return static_cast<std::size_t>(std::count_if(
      page.slots.begin(), page.slots.end(), [](const StatusSlot& slot) { return slot.pid != 0; }));
}

TEST(StatusPageTest, StartsEmpty) {
  const StatusMapping mapping = StatusMapping::create();
  ASSERT_NE(mapping.page(), nullptr);
  EXPECT_EQ(mapping.page()->version, kStatusVersion);
  EXPECT_EQ(claimed_slots(*mapping.page()), 0U);
  EXPECT_EQ(mapping.page()->slots.back().movers.back().name[0], '\0');
}

// parent   create ──────────────────────────── wait ─ reads the child's counters
// child            open path ─ claim ─ store ─ exit
TEST(StatusPageTest, ADescendantReachesItByPath) {
  const StatusMapping mapping = StatusMapping::create();
  const int status = in_child([&] {
    const StatusMapping opened = StatusMapping::open(mapping.path());
    StatusSlot* const slot = opened.claim_slot();
    if (slot == nullptr || opened.page() == mapping.page()) return 1;
    slot->fetched_bytes.store(77);
    return slot->pid == static_cast<std::uint32_t>(::getpid()) ? 0 : 2;
  });
  ASSERT_EQ(status, 0);
  EXPECT_EQ(mapping.page()->slots[0].fetched_bytes, 77U);
  EXPECT_NE(mapping.page()->slots[0].pid, 0U) << "stays set after exit";
}

TEST(StatusPageTest, AProcessHasOneSlot) {
  const StatusMapping mapping = StatusMapping::create();
  StatusSlot* const slot = mapping.claim_slot();
  EXPECT_EQ(slot, &mapping.page()->slots[0]);
  EXPECT_EQ(mapping.claim_slot(), slot);
  const StatusMapping again = StatusMapping::open(mapping.path());
  EXPECT_EQ(again.claim_slot(), &again.page()->slots[0]);
  EXPECT_EQ(claimed_slots(*mapping.page()), 1U);
}

TEST(StatusPageTest, AForkedChildHasItsOwnSlot) {
  const StatusMapping mapping = StatusMapping::create();
  StatusSlot* const ours = mapping.claim_slot();
  EXPECT_EQ(in_child([&] { return mapping.claim_slot() == ours + 1 ? 0 : 1; }), 0);
}

// child 1..16   claim ─ exit
//                            at the same time: each gets a slot of its own
TEST(StatusPageTest, ProcessesThatClaimAtOnceShareNothing) {
  const StatusMapping mapping = StatusMapping::create();
  std::vector<pid_t> children(16);
  for (pid_t& child : children) {
    child = ::fork();
    if (child == 0) {
      StatusSlot* const slot = mapping.claim_slot();
      if (slot != nullptr) slot->ops.fetch_add(1);
      ::_exit(slot != nullptr ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(claimed_slots(*mapping.page()), children.size());
  for (std::size_t i = 0; i < children.size(); ++i) EXPECT_EQ(mapping.page()->slots[i].ops, 1U);
}

TEST(StatusPageTest, IsFullAtSomePoint) {
  const StatusMapping mapping = StatusMapping::create();
  // No process has pid 2^22 or more.
  for (StatusSlot& slot : mapping.page()->slots) slot.pid.store(1U << 30);
  EXPECT_EQ(mapping.claim_slot(), nullptr);
  mapping.page()->slots.back().pid.store(0);
  EXPECT_EQ(mapping.claim_slot(), &mapping.page()->slots.back());
}

TEST(StatusPageTest, AnotherVersionShowsNothing) {
  const StatusMapping mapping = StatusMapping::create();
  mapping.page()->version.store(kStatusVersion + 1);
  EXPECT_EQ(StatusMapping::open(mapping.path()).page(), nullptr);
  mapping.page()->version.store(0);
  EXPECT_EQ(StatusMapping::open(mapping.path()).page(), nullptr) << "not ready yet";
}

TEST(StatusPageTest, WhatIsNoPageIsNotMapped) {
  std::string path;
  {
    const StatusMapping mapping = StatusMapping::create();
    path = mapping.path();
    EXPECT_NE(StatusMapping::open(path).page(), nullptr);
  }
  for (const std::string& other :
       {path, std::string(), std::string("/dev/null"), std::string("/proc/self/status"),
        std::string("/proc/self/exe"), testing::TempDir()}) {
    EXPECT_EQ(StatusMapping::open(other).page(), nullptr) << other;
  }
  const std::string fifo = testing::TempDir() + "/status-fifo-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(StatusMapping::open(fifo).page(), nullptr) << "and it does not wait for a writer";
  ::unlink(fifo.c_str());
  const StatusMapping none;
  EXPECT_EQ(none.claim_slot(), nullptr);
}

TEST(StatusPageTest, CannotBeCutShort) {
  const StatusMapping mapping = StatusMapping::create();
  const int descriptor = ::open(mapping.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  EXPECT_NE(::ftruncate(descriptor, 0), 0);
  ::close(descriptor);
}

TEST(StatusPageTest, MovesWithItsMapping) {
  StatusMapping first = StatusMapping::create();
  StatusPage* const page = first.page();
  StatusMapping second(std::move(first));
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): emptied by contract
  EXPECT_EQ(first.page(), nullptr);
  EXPECT_EQ(second.page(), page);
  StatusMapping third = StatusMapping::create();
  const std::string dropped = third.path();
  third = std::move(second);
  EXPECT_EQ(third.page(), page);
  EXPECT_EQ(StatusMapping::open(dropped).page(), nullptr) << "the former page is given back";
  EXPECT_NE(StatusMapping::open(third.path()).page(), nullptr);
  StatusMapping& same = third;
  third = std::move(same);
  EXPECT_EQ(third.page(), page);
}

}  // namespace
}  // namespace spillway::runtime
