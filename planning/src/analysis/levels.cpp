// SPDX-License-Identifier: Apache-2.0
#include "analysis/levels.hpp"

#include <algorithm>

namespace spillway::planning {

Levels levels_of(const AccessTable& table) {
  Levels levels;
  levels.of.resize(table.ops());
  // One more than the level of the last writer, and of the deepest op that touched it since.
  std::vector<Row> written(table.storages());
  std::vector<Row> touched(table.storages());
  for (Row op = 0; op < table.ops(); ++op) {
    Row level = 0;
    for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
      const Touch& touch = table.touch(row);
      level = std::max(level, touch.writes ? touched[touch.storage] : written[touch.storage]);
    }
    levels.of[op] = level;
    levels.count = std::max(levels.count, level + 1);
    for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
      const Touch& touch = table.touch(row);
      touched[touch.storage] = std::max(touched[touch.storage], level + 1);
      if (touch.writes) written[touch.storage] = level + 1;
    }
  }
  return levels;
}

}  // namespace spillway::planning
