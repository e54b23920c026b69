// SPDX-License-Identifier: Apache-2.0
#include "revocable_wait.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "swap_clock.hpp"

namespace spillway::tf {
namespace {

// Ticket 7 waits until it is taken back.
struct Waiting {
  bool waits = true;
  std::vector<RevocableWait::Ticket> asked;
  RevocableWait wait{[this](RevocableWait::Ticket ticket) {
    asked.push_back(ticket);
    return std::exchange(waits, false);
  }};
};

TEST(RevocableWaitTest, WhoRevokesAWaitThatIsKnownTakesItBack) {
  Waiting it;
  EXPECT_FALSE(it.wait.know(7));
  EXPECT_TRUE(it.wait.revoke());
  EXPECT_EQ(it.asked, std::vector<RevocableWait::Ticket>{7});
}

// Revoked between the registration and the ticket: else it would wait for what a failed step never
// does.
TEST(RevocableWaitTest, AWaitThatWasRevokedBeforeItWasKnownIsTakenBackByWhoBeganIt) {
  Waiting it;
  EXPECT_FALSE(it.wait.revoke());
  EXPECT_TRUE(it.asked.empty());
  EXPECT_TRUE(it.wait.know(7));
  EXPECT_EQ(it.asked, std::vector<RevocableWait::Ticket>{7});
}

TEST(RevocableWaitTest, AWaitThatHasEndedIsNobodys) {
  Waiting it;
  it.waits = false;
  EXPECT_FALSE(it.wait.revoke());
  EXPECT_FALSE(it.wait.know(7));
  Waiting at_once;
  EXPECT_FALSE(at_once.wait.know(0));
  EXPECT_FALSE(at_once.wait.revoke());
  EXPECT_TRUE(at_once.asked.empty());
}

// One thread waits for a time that never comes, another revokes: it is answered for once.
TEST(RevocableWaitTest, TwoThreadsAnswerForAWaitOnceWhoeverIsFirst) {
  SwapClock clock;
  for (std::uint64_t round = 0; round < 2000; ++round) {
    std::atomic<int> answers{0};
    const auto wait = std::make_shared<RevocableWait>(
        [&clock](SwapClock::Ticket ticket) { return clock.cancel(ticket); });
    std::thread other([&answers, wait] { answers += wait->revoke() ? 1 : 0; });
    const SwapClock::Ticket ticket = clock.wait_until({.step = static_cast<std::int64_t>(round)}, 1,
                                                      [&answers] { answers += 100; });
    answers += wait->know(ticket) ? 1 : 0;
    other.join();
    ASSERT_EQ(answers, 1);
  }
  EXPECT_EQ(clock.waiting(), 0U);
}

}  // namespace
}  // namespace spillway::tf
