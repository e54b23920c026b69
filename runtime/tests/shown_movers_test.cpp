// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/shown_movers.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace spillway::runtime {
namespace {

TEST(ShownMoversTest, StatisticsNameEachWithItsBytes) {
  const std::vector<MoveTally::Moved> movers{{"aten::mm 1 MiB", kMiB * 3}, {"loss 4 B", Bytes{8}}};
  EXPECT_EQ(to_json(movers).dump(), R"([{"name":"aten::mm 1 MiB","moved_bytes":3145728},)"
                                    R"({"name":"loss 4 B","moved_bytes":8}])");
  EXPECT_EQ(to_json({}).dump(), "[]");
}

TEST(ShownMoversTest, ThePageTakesAsManyAsItHasRoomForAndCutsLongNames) {
  std::vector<MoveTally::Moved> movers(kTopMovers + 1, {"small 1 KiB", kKiB});
  movers.front() = {std::string(200, 'n'), kMiB};
  const StatusMapping mapping = StatusMapping::create();
  StatusSlot& slot = mapping.page()->slots.front();
  show(movers, slot);
  EXPECT_EQ(slot.movers.front().name.data(), std::string(kMoverNameBytes - 1, 'n'));
  EXPECT_EQ(slot.movers.front().moved_bytes, kMiB.count);
  EXPECT_STREQ(slot.movers.back().name.data(), "small 1 KiB");
  EXPECT_EQ(mapping.page()->slots[1].movers.front().moved_bytes, 0U);
}

}  // namespace
}  // namespace spillway::runtime
