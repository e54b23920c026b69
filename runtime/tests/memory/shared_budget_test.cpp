// SPDX-License-Identifier: Apache-2.0
#include "memory/shared_budget.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

#include "in_child.hpp"

namespace spillway::runtime {
namespace {

constexpr Bytes kTotal = kMiB * 96;

TEST(SharedBudgetTest, AloneTheRootHoldsEverything) {
  SharedBudget root;
  EXPECT_FALSE(root.changed());
  root.lead(kTotal);
  EXPECT_TRUE(root.is_root());
  EXPECT_TRUE(root.changed());
  EXPECT_EQ(root.limit(), kTotal);
  EXPECT_FALSE(root.changed());
  root.lead(kTotal + kMiB);
  EXPECT_EQ(root.limit(), kTotal + kMiB);
}

TEST(SharedBudgetTest, WhatAMemberClaimsIsNoLongerTheRoots) {
  SharedBudget root;
  root.lead(kTotal);
  root.publish(kTotal);
  SharedBudget member;
  ASSERT_TRUE(member.join(root.path()));
  EXPECT_EQ(member.limit(), Bytes{});
  EXPECT_EQ(root.limit(), kTotal);
  Bytes before{};
  while (member.claim(kMiB)) {
    EXPECT_TRUE(root.changed());
    EXPECT_GT(member.limit(), before);
    before = member.limit();
    EXPECT_EQ(root.limit() + member.limit(), kTotal);
  }
  EXPECT_EQ(member.limit(), Bytes{kTotal.count / 2});  // and not more
}

TEST(SharedBudgetTest, ARootThatHoldsNothingNeedsNoPart) {
  SharedBudget root;
  root.lead(kTotal);
  SharedBudget member;
  ASSERT_TRUE(member.join(root.path()));
  while (member.claim(kMiB)) {
  }
  EXPECT_EQ(member.limit(), kTotal);
}

TEST(SharedBudgetTest, ALaterMemberShrinksTheEarlierOnesPart) {
  SharedBudget root;
  root.lead(kTotal);
  root.publish(kTotal);
  SharedBudget first;
  SharedBudget second;
  ASSERT_TRUE(first.join(root.path()));
  while (first.claim(kTotal)) {
  }
  ASSERT_TRUE(second.join(root.path()));
  while (second.claim(kTotal)) {
  }
  EXPECT_TRUE(first.changed());
  EXPECT_EQ(first.limit(), Bytes{kTotal.count / 3});
  EXPECT_EQ(second.limit(), Bytes{kTotal.count / 3});
  EXPECT_GE(root.limit(), Bytes{kTotal.count / 3});
}

TEST(SharedBudgetTest, NobodyJoinsWhatIsNotAPage) {
  SharedBudget member;
  EXPECT_FALSE(member.join("/proc/self/fd/0"));
  EXPECT_FALSE(member.join("/proc/1/fd/no-such"));
  EXPECT_FALSE(member.is_member());
}

TEST(SharedBudgetTest, AForkedProcessClaimsWhatItHoldsUntilItIsGone) {
  SharedBudget root;
  root.lead(kTotal);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    root.forked_begin();
    root.forked_hold(1000);  // not worth a claim
    root.forked_hold(std::int64_t{24} << 20);
    root.forked_hold(-(std::int64_t{4} << 20));
    ::_exit(0);
  }
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(root.claimed_by_others(), kMiB * 20);
  EXPECT_EQ(root.limit(), kTotal - kMiB * 20);
  root.drop_claims_of_dead();  // ended, though nobody has asked for its status yet
  EXPECT_EQ(root.claimed_by_others(), Bytes{});
  EXPECT_EQ(root.limit(), kTotal);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

// A launcher that starts one process after the other, and takes no step itself.
TEST(SharedBudgetTest, MembersComeAndGoWhileTheRootIdles) {
  SharedBudget root;
  root.lead(kTotal);
  for (std::size_t i = 0; i < SharedBudget::kMembers + 8; ++i) {
    ASSERT_EQ(in_child([&] {
                SharedBudget member;
                if (!member.join(root.path())) return 1;
                while (member.claim(kTotal)) {
                }
                return member.limit() == kTotal ? 0 : 2;
              }),
              0)
        << i;
  }
}

TEST(SharedBudgetTest, OnlySoManyShare) {
  SharedBudget root;
  root.lead(kTotal);
  std::array<SharedBudget, SharedBudget::kMembers> members;
  for (SharedBudget& member : members) ASSERT_TRUE(member.join(root.path()));
  SharedBudget late;
  EXPECT_FALSE(late.join(root.path()));
  EXPECT_FALSE(late.is_member());
}

TEST(SharedBudgetTest, ForkedProcessesAreNoPartsButWhatTheyHoldIsGone) {
  SharedBudget root;
  root.lead(kTotal);
  root.publish(kTotal);
  SharedBudget member;
  ASSERT_TRUE(member.join(root.path()));
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      root.forked_begin();
      root.forked_hold(std::int64_t{2} << 20);
      ::_exit(0);
    }
    siginfo_t ended{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  }
  EXPECT_EQ(member.reach(), Bytes{(kTotal - kMiB * 6).count / 2});
  EXPECT_EQ(root.reach(), kTotal - kMiB * 6) << "the member has claimed nothing yet";
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}

TEST(SharedBudgetTest, ThreadsOfAForkedProcessMakeOneClaim) {
  SharedBudget root;
  root.lead(kTotal);
  ASSERT_EQ(in_child([&] {
              root.forked_begin();
              std::vector<std::jthread> threads(4);
              for (std::jthread& thread : threads) {
                thread = std::jthread([&] {
                  for (int i = 0; i < 2000; ++i) {
                    root.forked_hold(std::int64_t{3} << 20);
                    root.forked_hold(-(std::int64_t{3} << 20));
                  }
                  root.forked_hold(std::int64_t{1} << 20);
                });
              }
              return 0;
            }),
            0);
  EXPECT_EQ(root.claimed_by_others(), kMiB * 4);
}

TEST(SharedBudgetTest, ThePageTellsWhatIsShared) {
  SharedBudget root;
  root.lead(kTotal);
  EXPECT_EQ(SharedBudget::total_of(root.path()), kTotal);
  EXPECT_EQ(SharedBudget::total_of("/proc/self/fd/0"), Bytes{});
}

}  // namespace
}  // namespace spillway::runtime
