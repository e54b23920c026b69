// SPDX-License-Identifier: Apache-2.0
#include "cost/floor.hpp"

#include <algorithm>
#include <vector>

namespace spillway::planning {

Floor floor_of(const StepModel& model) {
  Floor floor;
  std::uint64_t inputs = 0;
  for (Row s = 0; s < model.table.storages(); ++s) {
    if (model.table.creator(s) == kNoRow && model.table.predecessor(s) == kNoRow) {
      inputs += model.table.bytes(s);
    }
  }
  floor.bytes = inputs;
  floor.of_inputs = true;
  for (Row op = 0; op < model.ops(); ++op) {
    const std::uint64_t need = model.least_working_set(op);
    if (need > floor.bytes) floor = {need, op};
  }
  return floor;
}

Floor floor_of_all_tiers(const StepModel& model) {
  const AccessTable& table = model.table;
  const Row ops = table.ops();
  std::vector<std::int64_t> change(ops + 1);
  const auto held = [&](Row storage, Row from, Row to) {
    if (from >= to) return;
    const auto bytes = static_cast<std::int64_t>(table.bytes(storage));
    change[from] += bytes;
    change[to] -= bytes;
  };
  for (Row row = 0; row < table.touches(); ++row) {
    const GapEnd end = end_of_gap(table, row);
    if (end.touch == kNoRow) continue;
    const Row storage = table.touch(row).storage;
    const Row again = model.recompute_op[storage] == kNoRow ? 0 : model.chain_until[storage];
    const Row next = table.op_of(end.touch);
    held(storage, std::max(table.op_of(row) + 1, again), end.wraps ? ops : next);
    if (end.wraps) held(table.touch(end.touch).storage, 0, next);
  }
  Floor floor;
  std::int64_t between = 0;  // bytes of gaps
  for (Row op = 0; op < ops; ++op) {
    between += change[op];
    const std::uint64_t bytes = static_cast<std::uint64_t>(between) + model.least_working_set(op);
    if (bytes > floor.bytes) floor = {bytes, op};
  }
  return floor;
}

std::uint64_t short_on_all_tiers(const StepModel& model) {
  std::uint64_t left = floor_of_all_tiers(model).bytes;
  for (const Tier tier : kTiers) left -= std::min(left, model.budget(tier));
  return left;
}

}  // namespace spillway::planning
