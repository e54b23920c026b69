// SPDX-License-Identifier: Apache-2.0
#include "planner/forward_pass.hpp"

#include <algorithm>

#include "planner/gap_planner.hpp"

namespace spillway::planning {

ForwardPass forward_pass(const Problem& problem, const StepModel& model) {
  const AccessTable& table = model.table;
  ForwardPass pass;
  std::vector<std::int64_t> change(table.ops() + 2);
  for (Row s = 0; s < table.storages(); ++s) {
    if (!is_feature_map(problem, table, s)) continue;
    const auto bytes = static_cast<std::int64_t>(table.bytes(s));
    change[table.creator(s)] += bytes;
    change[std::min(table.freed_by(s), table.ops()) + 1] -= bytes;
  }
  std::int64_t alive = 0;
  std::int64_t most = -1;
  for (Row op = 0; op < table.ops(); ++op) {
    alive += change[op];
    if (alive > most) {
      most = alive;
      pass.turn = op;
    }
  }
  for (Row row = 0; row < table.first_touch_of_op(pass.turn); ++row) {
    const Row storage = table.touch(row).storage;
    const Row next = table.next_touch(row);
    if (next == kNoRow || table.op_of(next) < pass.turn) continue;
    if (!is_feature_map(problem, table, storage)) continue;
    pass.saved.push_back(storage);
    pass.last_use.push_back(row);
  }
  std::vector<std::size_t> order(pass.saved.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Row first = table.first_touch(pass.saved[a]);
    const Row second = table.first_touch(pass.saved[b]);
    return first < second;
  });
  ForwardPass sorted{pass.turn, {}, {}};
  for (const std::size_t i : order) {
    sorted.saved.push_back(pass.saved[i]);
    sorted.last_use.push_back(pass.last_use[i]);
  }
  return sorted;
}

std::vector<bool> heavy_ops(const Problem& problem, const StepModel& model) {
  // Ten FLOP per byte divides convolutions and matrix products from what passes over memory.
  constexpr double kHeavyFlopPerByte = 10;
  const AccessTable& table = model.table;
  std::vector<bool> heavy(table.ops());
  std::vector<double> per_byte;
  for (Row op = 0; op < table.ops(); ++op) {
    const auto bytes = static_cast<double>(table.working_set(op) - table.workspace(op) + 1);
    if (model.created[op] > 0) per_byte.push_back(static_cast<double>(model.duration[op]) / bytes);
  }
  if (per_byte.empty()) return heavy;
  const auto middle = per_byte.begin() + static_cast<std::ptrdiff_t>(per_byte.size() / 2);
  std::nth_element(per_byte.begin(), middle, per_byte.end());
  const double usual = *middle;
  for (Row op = 0; op < table.ops(); ++op) {
    const auto bytes = static_cast<double>(table.working_set(op) - table.workspace(op) + 1);
    heavy[op] = problem.trace.ops.flop[op]
                    ? static_cast<double>(*problem.trace.ops.flop[op]) > kHeavyFlopPerByte * bytes
                    : static_cast<double>(model.duration[op]) > 2 * usual * bytes;
  }
  return heavy;
}

}  // namespace spillway::planning
