// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_summary.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace spillway::tools {
namespace {

// The bytes that must be in memory at once for the op to run at all.
Bytes working_set(const Trace& trace, OpIndex op) {
  std::set<StorageId> used;
  for (const StorageLists* lists : {&trace.ops.reads, &trace.ops.writes, &trace.ops.creates}) {
    const auto row = (*lists)[op];
    used.insert(row.begin(), row.end());
  }
  Bytes sum = trace.ops.workspace[to_value(op)];
  for (const StorageId id : used) sum += trace.storages.bytes[to_value(id)];
  return sum;
}

std::vector<OpSum> ops_by_name(const Trace& trace) {
  std::map<std::string_view, OpSum> by_name;
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    OpSum& sum = by_name[trace.ops.name[op]];
    sum.name = trace.ops.name[op];
    sum.time_ns += trace.ops.duration_ns[op];
    ++sum.count;
  }
  std::vector<OpSum> sums;
  sums.reserve(by_name.size());
  for (const auto& [name, sum] : by_name) sums.push_back(sum);
  std::stable_sort(sums.begin(), sums.end(), [](const OpSum& a, const OpSum& b) {
    return std::tie(a.time_ns, a.count) > std::tie(b.time_ns, b.count);
  });
  return sums;
}

bool same_op(const Trace& trace, std::size_t op, const Trace& other, std::size_t other_op) {
  if (trace.ops.name[op] != other.ops.name[other_op]) return false;
  const auto same = [&](const StorageLists& mine, const StorageLists& theirs) {
    const auto row = mine[OpIndex{op}];
    const auto other_row = theirs[OpIndex{other_op}];
    return std::equal(
        row.begin(), row.end(), other_row.begin(), other_row.end(), [&](StorageId a, StorageId b) {
          return trace.storages.bytes[to_value(a)] == other.storages.bytes[to_value(b)];
        });
  };
  return trace.ops.workspace[op] == other.ops.workspace[other_op] &&
         same(trace.ops.reads, other.ops.reads) && same(trace.ops.writes, other.ops.writes) &&
         same(trace.ops.creates, other.ops.creates) && same(trace.ops.frees, other.ops.frees) &&
         same(trace.ops.views, other.ops.views);
}

}  // namespace

TimeNs compute_time(const Trace& trace) {
  return std::accumulate(trace.ops.duration_ns.begin(), trace.ops.duration_ns.end(), TimeNs{0});
}

Bytes bytes_of(const Trace& trace, std::span<const StorageId> storages) {
  Bytes sum{};
  for (const StorageId id : storages) sum += trace.storages.bytes[to_value(id)];
  return sum;
}

TraceSummary summary_of(const Trace& trace) {
  TraceSummary summary;
  summary.time_ns = compute_time(trace);
  summary.step_peak = peak_bytes(trace);
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    const Bytes bytes = working_set(trace, OpIndex{op});
    if (bytes <= summary.largest_working_set) continue;
    summary.largest_working_set = bytes;
    summary.largest_op = op;
  }
  summary.peak = trace.run_peak.value_or(summary.step_peak);
  summary.floor = trace.run_floor.value_or(summary.largest_working_set);
  for (std::size_t id = 0; id < trace.storages.size(); ++id) {
    RoleSum& role = summary.roles[static_cast<std::size_t>(trace.storages.role[id])];
    ++role.count;
    role.bytes += trace.storages.bytes[id];
    if (trace.storages.persistent[id] != 0) summary.persistent += trace.storages.bytes[id];
  }
  summary.ops = ops_by_name(trace);
  return summary;
}

TraceAgreement agreement_of(const Trace& trace, const Trace& other) {
  const std::size_t mine = trace.ops.size();
  const std::size_t theirs = other.ops.size();
  const std::size_t shorter = std::min(mine, theirs);
  TraceAgreement found;
  while (found.first < shorter && same_op(trace, found.first, other, found.first)) ++found.first;
  while (found.first + found.last < shorter &&
         same_op(trace, mine - 1 - found.last, other, theirs - 1 - found.last)) {
    ++found.last;
  }
  found.same_names = mine == theirs;
  for (std::size_t op = 0; found.same_names && op < mine; ++op) {
    found.same_names = trace.ops.name[op] == other.ops.name[op];
  }
  return found;
}

}  // namespace spillway::tools
