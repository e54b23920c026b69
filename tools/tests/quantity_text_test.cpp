// SPDX-License-Identifier: Apache-2.0
#include "text/quantity_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::tools {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ShortBytesTest, KeepsTwoOrThreeDigits) {
  EXPECT_EQ(short_bytes(Bytes{0}), "0 B");
  EXPECT_EQ(short_bytes(Bytes{1023}), "1023 B");
  EXPECT_EQ(short_bytes(kKiB), "1 KiB");
  EXPECT_EQ(short_bytes(kMiB * 812), "812 MiB");
  EXPECT_EQ(short_bytes(Bytes{(kGiB.count * 21) / 10}), "2.1 GiB");
}

// 1023.7 MiB would print as 1024 MiB: the next unit says it shorter.
TEST(ShortBytesTest, MovesToTheNextUnitWhereRoundingReachesIt) {
  EXPECT_EQ(short_bytes(Bytes{kGiB.count - 1}), "1 GiB");
  EXPECT_EQ(short_bytes(Bytes{kMiB.count * 10 - 1}), "10 MiB");
}

TEST(ShortTimeTest, ChoosesTheUnit) {
  EXPECT_EQ(short_time(0), "0 ms");
  EXPECT_EQ(short_time(350'000), "350 us");
  EXPECT_EQ(short_time(999'700), "1 ms");
  EXPECT_EQ(short_time(850'000'000), "850 ms");
  EXPECT_EQ(short_time(999'700'000), "1 s");
  EXPECT_EQ(short_time(1'800'000'000), "1.8 s");
  EXPECT_EQ(short_time(59'700'000'000), "1 min 0 s");
  EXPECT_EQ(short_time(192'000'000'000), "3 min 12 s");
  EXPECT_EQ(short_time(7'500'000'000'000), "2 h 5 min");
}

TEST(ShortPercentTest, TellsLittleFromNothing) {
  EXPECT_EQ(short_percent(0), "0 %");
  EXPECT_EQ(short_percent(0.001), "<1 %");
  EXPECT_EQ(short_percent(0.042), "4 %");
  EXPECT_EQ(short_percent(1), "100 %");
}

TEST(ShortRateTest, IsDecimal) {
  EXPECT_EQ(short_rate(640e6), "640 MB/s");
  EXPECT_EQ(short_rate(2.14e9), "2.1 GB/s");
}

TEST(WrapTextTest, BreaksAtSpacesOnly) {
  EXPECT_THAT(wrap_text("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrap_text("  one   two ", 80), ElementsAre("one two"));
  EXPECT_THAT(wrap_text("unbreakable on", 4), ElementsAre("unbreakable", "on"));
  EXPECT_THAT(wrap_text("", 4), IsEmpty());
}

}  // namespace
}  // namespace spillway::tools
