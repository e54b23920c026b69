// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/unmanaged_gauge.hpp"

#include <gtest/gtest.h>

namespace spillway::runtime {
namespace {

constexpr TimeNs kMs = 1'000'000;

class UnmanagedGaugeTest : public ::testing::Test {
 protected:
  /// A look that took 100 us, in which tensors held `managed` all the time.
  bool look(Bytes others, Bytes managed = kMiB * 100, std::uint64_t steps = 0) {
    return look_while(others, managed, managed, steps);
  }
  bool look_while(Bytes others, Bytes before, Bytes after, std::uint64_t steps = 0,
                  Bytes opening = {}) {
    now_ += kMs * 1000;
    EXPECT_TRUE(gauge_.claim_look(now_));
    return gauge_.note({.process = others + before + pool_,
                        .managed_before = before,
                        .managed_after = after,
                        .opening = opening,
                        .pool = pool_,
                        .steps = steps,
                        .began = now_,
                        .ended = now_ + kMs / 10});
  }

  UnmanagedGauge gauge_;
  Bytes pool_ = kMiB * 20;
  TimeNs now_ = 0;
};

TEST_F(UnmanagedGaugeTest, IsWhatTheProcessHoldsLessTensorsAndPool) {
  EXPECT_TRUE(look(kMiB * 520));
  EXPECT_EQ(gauge_.held(), kMiB * 520);
  EXPECT_FALSE(look(kMiB * 520));
  EXPECT_TRUE(look(kMiB * 600));
  EXPECT_EQ(gauge_.held(), kMiB * 600);
}

TEST_F(UnmanagedGaugeTest, ExpectsHalfOfTheContextMoreUntilThreeStepsAreDone) {
  look(kMiB * 480);
  EXPECT_EQ(gauge_.expected(), kMiB * 240);
  look(kMiB * 600, kMiB, 2);
  EXPECT_EQ(gauge_.expected(), kMiB * 120) << "that of it has come";
}

TEST_F(UnmanagedGaugeTest, ExpectsOneMoreModuleAtAnyTimeAfterThreeSteps) {
  look(kMiB * 480);
  EXPECT_TRUE(look(kMiB * 600, kMiB, 3));
  EXPECT_EQ(gauge_.expected(), kMiB * 30);
  EXPECT_TRUE(look(kMiB * 630, kMiB, 9));
  EXPECT_EQ(gauge_.expected(), kMiB * 30) << "another, when that one has come";
}

TEST_F(UnmanagedGaugeTest, ExpectsNothingBeyondThat) {
  look(kMiB * 500);
  look(kMiB * 900);
  EXPECT_EQ(gauge_.held(), kMiB * 900);
  EXPECT_EQ(gauge_.expected(), Bytes{});
}

TEST_F(UnmanagedGaugeTest, WithoutStepsIsSettledAfterAMinute) {
  look(kMiB * 480);
  now_ += kMs * 58'000;
  look(kMiB * 480);
  EXPECT_EQ(gauge_.expected(), kMiB * 240);
  look(kMiB * 480);
  EXPECT_EQ(gauge_.expected(), kMiB * 30);
}

//   held, if tensors held `after`   |-- what it may be --|   if they held `before`
TEST_F(UnmanagedGaugeTest, KeepsWhatItKnewWhileTensorsComeAndGo) {
  look(kMiB * 500);
  EXPECT_FALSE(look_while(kMiB * 510, kMiB * 100, kMiB * 120, 3)) << "490 to 510 agrees with 500";
  EXPECT_EQ(gauge_.held(), kMiB * 500);
  EXPECT_NE(gauge_.expected(), Bytes{}) << "an uncertain look settles nothing";
  look_while(kMiB * 600, kMiB * 100, kMiB * 120);
  EXPECT_EQ(gauge_.held(), kMiB * 580) << "so much at least";
  look_while(kMiB * 400, kMiB * 120, kMiB * 100);
  EXPECT_EQ(gauge_.held(), kMiB * 420) << "so much at most";
}

// A thread creates pages that tensors have paid for: the driver counts some of them.
TEST_F(UnmanagedGaugeTest, DoesNotTakePagesThatAreStillToComeForLessOfOthers) {
  look(kMiB * 500);
  EXPECT_FALSE(look_while(kMiB * 470, kMiB * 100, kMiB * 100, 0, kMiB * 32));
  EXPECT_EQ(gauge_.held(), kMiB * 500) << "2 of 32 had come, or 30 of others have gone";
  look_while(kMiB * 460, kMiB * 100, kMiB * 100, 0, kMiB * 32);
  EXPECT_EQ(gauge_.held(), kMiB * 492) << "so much at most";
  look(kMiB * 470);
  EXPECT_EQ(gauge_.held(), kMiB * 470) << "none is to come";
}

TEST_F(UnmanagedGaugeTest, AsksATenthOfTheTimeAtFirstAndAHundredthLater) {
  look(kMiB * 500);
  EXPECT_FALSE(gauge_.claim_look(now_ + kMs * 9));
  ASSERT_TRUE(gauge_.claim_look(now_ + kMs * 10));
  EXPECT_FALSE(gauge_.claim_look(now_ + kMs * 10)) << "one caller alone";
  look(kMiB * 500, kMiB, 3);
  EXPECT_FALSE(gauge_.claim_look(now_ + kMs * 99));
  ASSERT_TRUE(gauge_.claim_look(now_ + kMs * 100));
  gauge_.note_nothing(now_ + kMs * 100, now_ + kMs * 110);
  EXPECT_FALSE(gauge_.claim_look(now_ + kMs * 1109));
  EXPECT_TRUE(gauge_.claim_look(now_ + kMs * 1110));
}

}  // namespace
}  // namespace spillway::runtime
