// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/cost/step_model.hpp"

#include <algorithm>

namespace spillway::planning {

StepModel::StepModel(const Problem& problem)
    : table(problem.trace),
      budgets(problem.budgets),
      duration(problem.trace.ops.duration_ns),
      links_(problem.machine.links) {
  start.resize(duration.size() + 1);
  for (std::size_t i = 0; i < duration.size(); ++i) start[i + 1] = start[i] + duration[i];
  created.resize(table.ops());
  for (Row row = 0; row < table.touches(); ++row) {
    const Touch& touch = table.touch(row);
    if (touch.creates) created[table.op_of(row)] += table.bytes(touch.storage);
  }
  measure_alternatives(problem.trace);
  find_recomputations(problem.trace);
}

double StepModel::copy_ns(LinkKind link, std::uint64_t bytes) const {
  const std::optional<Link>& road = links_[index_of(link)];
  if (!road) return kNever;
  return static_cast<double>(road->latency_ns) +
         static_cast<double>(bytes) * 1e9 / road->bytes_per_second;
}

double StepModel::least_copy_ns(LinkKind link, std::uint64_t bytes) const {
  const std::optional<Link>& road = links_[index_of(link)];
  if (!road) return kNever;
  const double flowing = static_cast<double>(bytes) * 1e9 / road->bytes_per_second;
  return road->latency_ns > 0 ? flowing : std::max(0.0, flowing - 0.5);
}

double StepModel::recompute_share_ns(Row storage) const {
  const Row op = recompute_op[storage];
  if (op == kNoRow) return kNever;
  return static_cast<double>(least_duration[op]) * static_cast<double>(table.bytes(storage)) /
         static_cast<double>(std::max<std::uint64_t>(created[op], 1));
}

void StepModel::measure_alternatives(const Trace& trace) {
  least_duration = duration;
  alternatives = trace.ops.alternatives;
  least_workspace.resize(table.ops());
  for (Row op = 0; op < table.ops(); ++op) {
    least_workspace[op] = table.workspace(op);
    for (const OpAlternative& other : trace.ops.alternatives[OpIndex{op}]) {
      least_duration[op] = std::min(least_duration[op], other.duration_ns);
      least_workspace[op] = std::min(least_workspace[op], other.workspace.count);
    }
  }
}

void StepModel::find_recomputations(const Trace& trace) {
  const Row count = table.touches();
  next_write.assign(count, kNoRow);
  for (Row row = count; row-- > 0;) {
    const Row next = table.next_touch(row);
    if (next != kNoRow) {
      next_write[row] = table.touch(next).writes ? table.op_of(next) : next_write[next];
    }
  }
  recompute_op.assign(table.storages(), kNoRow);
  recompute_until.assign(table.storages(), 0);
  chain_until.assign(table.storages(), 0);
  for (Row op = 0; op < table.ops(); ++op) {
    if (trace.ops.recomputable[op] == 0) continue;
    Row until = table.ops();
    Row chain = table.ops();
    for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
      const Touch& touch = table.touch(row);
      if (touch.creates) continue;
      const Row there = std::min(next_write[row], table.freed_by(touch.storage));
      until = std::min(until, there);
      chain = std::min(chain, std::max(there, chain_until[touch.storage]));
    }
    for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
      if (!table.touch(row).creates || next_write[row] != kNoRow) continue;
      recompute_op[table.touch(row).storage] = op;
      recompute_until[table.touch(row).storage] = until;
      chain_until[table.touch(row).storage] = chain;
    }
  }
}

}  // namespace spillway::planning
