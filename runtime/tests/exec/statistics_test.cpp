// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/statistics.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace spillway::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Statistics after_ten_seconds(std::int64_t mapping_ns) {
  Statistics statistics;
  statistics.mode = Mode::kEnforce;
  statistics.elapsed_ns = 10'000'000'000;
  statistics.mapping_ns = mapping_ns;
  return statistics;
}

TEST(StatisticsTest, TheSummaryTellsOfMappingFromAHundredthOfTheTime) {
  EXPECT_THAT(to_summary(after_ten_seconds(0)), Not(HasSubstr("mapping")));
  EXPECT_THAT(to_summary(after_ten_seconds(99'000'000)), Not(HasSubstr("mapping")));
  EXPECT_THAT(to_summary(after_ten_seconds(2'500'000'000)),
              HasSubstr("mapping the card's memory held the program up for 2.5 s\n"));
}

TEST(StatisticsTest, TheFileHasMappingWhateverItIs) {
  const auto read = nlohmann::json::parse(to_json(after_ten_seconds(99)));
  EXPECT_EQ(read.at("mapping_ns"), 99);
  EXPECT_EQ(read.at("stall_ns"), 0);
}

}  // namespace
}  // namespace spillway::runtime
