// SPDX-License-Identifier: Apache-2.0
#include "search/small_storages.hpp"

#include <algorithm>
#include <vector>

namespace spillway::planning::pass {
namespace {

// Per op: the bytes of storages of up to `size` that are alive and that the op does not touch.
std::vector<std::uint64_t> beside_ops(const AccessTable& table, std::uint64_t size) {
  std::vector<std::uint64_t> born(table.ops() + 1), died(table.ops() + 1);
  for (Row s = 0; s < table.storages(); ++s) {
    if (table.bytes(s) > size || table.only_freed(s)) continue;
    born[table.creator(s) == kNoRow ? 0 : table.creator(s)] += table.bytes(s);
    if (table.freed_by(s) != kNoRow) died[table.freed_by(s) + 1] += table.bytes(s);
  }
  std::vector<std::uint64_t> bytes(table.ops());
  std::uint64_t alive = 0;
  for (Row op = 0; op < table.ops(); ++op) {
    alive += born[op];
    alive -= died[op];
    bytes[op] = alive;
    for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
      const std::uint64_t touched = table.bytes(table.touch(row).storage);
      if (touched <= size) bytes[op] -= touched;
    }
  }
  return bytes;
}

bool may_stay(const StepModel& model, std::uint64_t size, double share) {
  const std::uint64_t budget = model.budget(Tier::kDevice);
  const std::vector<std::uint64_t> beside = beside_ops(model.table, size);
  for (Row op = 0; op < model.ops(); ++op) {
    const std::uint64_t need = model.least_working_set(op);
    const std::uint64_t room = budget > need ? budget - need : 0;
    if (static_cast<double>(beside[op]) > share * static_cast<double>(room)) return false;
  }
  return true;
}

}  // namespace

std::uint64_t size_that_may_stay(const StepModel& model, double share) {
  std::vector<std::uint64_t> sizes{0};
  for (Row s = 0; s < model.table.storages(); ++s) sizes.push_back(model.table.bytes(s));
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::size_t most = 0;
  for (std::size_t low = 1, high = sizes.size(); low < high;) {
    const std::size_t middle = low + (high - low) / 2;
    if (may_stay(model, sizes[middle], share)) {
      most = middle;
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return sizes[most];
}

}  // namespace spillway::planning::pass
