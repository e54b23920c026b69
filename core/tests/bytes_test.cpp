// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "spillway/base/error.hpp"

namespace spillway {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(BytesTest, SubtractionBelowZeroIsABug) {
  EXPECT_EQ(kMiB - kKiB, Bytes{1023 * 1024});
  EXPECT_EQ(kMiB - kMiB, Bytes{0});
  EXPECT_THROW((void)(kKiB - kMiB), InternalError);
  EXPECT_EQ(saturating_sub(kKiB, kMiB), Bytes{0});
  EXPECT_EQ(saturating_sub(kMiB, kKiB), kMiB - kKiB);
}

TEST(BytesTest, RoundsUpToGranules) {
  EXPECT_EQ(round_up({0}, 4096), Bytes{0});
  EXPECT_EQ(round_up({1}, 4096), Bytes{4096});
  EXPECT_EQ(round_up({4096}, 4096), Bytes{4096});
  EXPECT_EQ(round_up({4097}, 4096), Bytes{8192});
}

TEST(BytesTextTest, IsShort) {
  EXPECT_EQ(to_string(Bytes{0}), "0 B");
  EXPECT_EQ(to_string(Bytes{512}), "512 B");
  EXPECT_EQ(to_string(Bytes{1023}), "1023 B");
  EXPECT_EQ(to_string(kKiB), "1 KiB");
  EXPECT_EQ(to_string(kMiB * 900), "900 MiB");
  EXPECT_EQ(to_string(kMiB * 1536), "1.5 GiB");
  EXPECT_EQ(to_string(Bytes{1024 + 1}), "1.001 KiB");
  EXPECT_EQ(to_string(Bytes{kMost}), "16 EiB");
}

TEST(BytesTextTest, RoundsIntoTheNextUnit) {
  EXPECT_EQ(to_string(kMiB - Bytes{1}), "1023.999 KiB");
  EXPECT_EQ(to_string(kGiB - Bytes{1}), "1 GiB");
}

TEST(ParseBytesTest, KnowsEveryUnit) {
  EXPECT_EQ(parse_bytes("4096", "x"), Bytes{4096});
  EXPECT_EQ(parse_bytes("0", "x"), Bytes{0});
  EXPECT_EQ(parse_bytes("7B", "x"), Bytes{7});
  EXPECT_EQ(parse_bytes("64k", "x"), kKiB * 64);
  EXPECT_EQ(parse_bytes("64K", "x"), kKiB * 64);
  EXPECT_EQ(parse_bytes("64kb", "x"), Bytes{64'000});
  EXPECT_EQ(parse_bytes("3M", "x"), kMiB * 3);
  EXPECT_EQ(parse_bytes("3MB", "x"), Bytes{3'000'000});
  EXPECT_EQ(parse_bytes("12GiB", "x"), kGiB * 12);
  EXPECT_EQ(parse_bytes("12gib", "x"), kGiB * 12);
  EXPECT_EQ(parse_bytes("12GB", "x"), Bytes{12'000'000'000});
  EXPECT_EQ(parse_bytes("2TiB", "x"), kGiB * 2048);
}

TEST(ParseBytesTest, TakesFractionsAndSpace) {
  EXPECT_EQ(parse_bytes(" 1.5 GiB ", "x"), kMiB * 1536);
  EXPECT_EQ(parse_bytes(".5k", "x"), Bytes{512});
  EXPECT_EQ(parse_bytes("2.", "x"), Bytes{2});
  EXPECT_EQ(parse_bytes("1.9", "x"), Bytes{1}) << "rounded down";
}

TEST(ParseBytesTest, IsExactUpToTheLargestNumber) {
  EXPECT_EQ(parse_bytes("18446744073709551615", "x"), Bytes{kMost});
  EXPECT_EQ(parse_bytes("9007199254740993", "x"), Bytes{9007199254740993}) << "2^53 + 1";
  EXPECT_THROW(parse_bytes("18446744073709551616", "x"), UserError);
  EXPECT_THROW(parse_bytes("16EiB", "x"), UserError);
  EXPECT_THROW(parse_bytes("16.0EiB", "x"), UserError);
  EXPECT_EQ(parse_bytes("15EiB", "x"), kGiB * (std::uint64_t{15} << 30));
}

TEST(ParseBytesTest, RefusesEverythingElseByName) {
  for (const char* text :
       {"",    " ",      "GiB",    ".",   "-1",   "-1GiB",       "+1",     "nan",
        "inf", "1e9",    "0x10",   "1 2", "1..5", "1.2.3",       "12GiBs", "12 Gi",
        "12Q", "1,5GiB", "12GiB,", "80%", "auto", "\xc2\xbd GiB"}) {
    try {
      const Bytes bytes = parse_bytes(text, "SPILLWAY_MIN_SIZE");
      ADD_FAILURE() << '"' << text << "\" was read as " << bytes.count;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("SPILLWAY_MIN_SIZE")) << text;
      EXPECT_THAT(error.what(), testing::HasSubstr("\"" + std::string(text) + "\""));
    }
  }
}

TEST(CheckTest, NamesConditionOperandsAndPlace) {
  const int have = 3;
  SPILLWAY_CHECK(have == 3, "never shown");
  try {
    SPILLWAY_CHECK(have > 4, "have " + std::to_string(have));
    ADD_FAILURE() << "passed";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("have 3"));
    EXPECT_THAT(error.what(), testing::HasSubstr("have > 4"));
    EXPECT_THAT(error.what(), testing::HasSubstr("at bytes_test.cpp:"));
  }
}

}  // namespace
}  // namespace spillway
