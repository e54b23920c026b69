// SPDX-License-Identifier: Apache-2.0
#include "trace_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "quantity_text.hpp"
#include "spillway/trace/trace_io.hpp"

namespace spillway::tools {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kLongestOps = 5;
constexpr std::size_t kDifferingOps = 15;

// Names come from a file: what is not printable ASCII must not reach the terminal as it is.
std::string cut_to(std::string_view name, std::size_t width) {
  std::string text(name);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

std::string row_of_line(std::string front, std::string_view name) {
  const std::size_t left = kColumns - front.size();
  return std::move(front) + cut_to(name, left) + "\n";
}

Bytes bytes_of(const Trace& trace, std::span<const StorageId> storages) {
  Bytes sum{};
  for (const StorageId id : storages) sum += trace.storages.bytes[to_value(id)];
  return sum;
}

std::string bytes_cell(Bytes bytes) { return bytes == Bytes{0} ? "-" : short_bytes(bytes); }

// What must be in memory at once for the op to run at all.
Bytes working_set(const Trace& trace, OpIndex op) {
  std::set<StorageId> used;
  for (const StorageLists* lists : {&trace.ops.reads, &trace.ops.writes, &trace.ops.creates}) {
    const auto row = (*lists)[op];
    used.insert(row.begin(), row.end());
  }
  Bytes sum = trace.ops.alloc_peak[to_value(op)];
  for (const StorageId id : used) sum += trace.storages.bytes[to_value(id)];
  return sum;
}

std::string working_set_line(const Trace& trace) {
  if (trace.ops.size() == 0) return "";
  Bytes largest{};
  std::size_t where = 0;
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    const Bytes bytes = working_set(trace, OpIndex{op});
    if (bytes > largest) {
      largest = bytes;
      where = op;
    }
  }
  return row_of_line(
      fmt::format("largest working set   {}, of op {}, ", short_bytes(largest), where),
      trace.ops.name[where]);
}

std::string roles_table(const Trace& trace) {
  std::array<std::size_t, kStorageRoleCount> count{};
  std::array<Bytes, kStorageRoleCount> bytes{};
  for (std::size_t id = 0; id < trace.storages.size(); ++id) {
    const auto role = static_cast<std::size_t>(trace.storages.role[id]);
    ++count[role];
    bytes[role] += trace.storages.bytes[id];
  }
  std::string text = fmt::format("\n{:<20}{:>10}{:>12}\n", "storages", "count", "bytes");
  for (std::size_t role = 0; role < kStorageRoleCount; ++role) {
    if (count[role] == 0) continue;
    text += fmt::format("  {:<18}{:>10}{:>12}\n", to_string(static_cast<StorageRole>(role)),
                        count[role], short_bytes(bytes[role]));
  }
  return text;
}

std::string longest_ops(const Trace& trace) {
  std::map<std::string_view, std::pair<TimeNs, std::size_t>> by_name;
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    auto& [time, count] = by_name[trace.ops.name[op]];
    time += trace.ops.duration_ns[op];
    ++count;
  }
  std::vector<std::pair<std::string_view, std::pair<TimeNs, std::size_t>>> rows(by_name.begin(),
                                                                                by_name.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  rows.resize(std::min(rows.size(), kLongestOps));
  std::string text = fmt::format("\n{:>12}{:>10}  longest ops\n", "time", "count");
  for (const auto& [name, sum] : rows) {
    text += row_of_line(fmt::format("{:>12}{:>10}  ", short_time(sum.first), sum.second), name);
  }
  return text;
}

/// The columns of bytes in front of an op's name.
std::string op_cells(const Trace& trace, std::size_t op) {
  const auto cell = [&](const StorageLists& lists) {
    return bytes_cell(bytes_of(trace, lists[OpIndex{op}]));
  };
  return fmt::format("{:>6} {:>7} {:>8} {:>8} {:>8} {:>8}  ", op,
                     short_time(trace.ops.duration_ns[op]), cell(trace.ops.reads),
                     cell(trace.ops.writes), cell(trace.ops.creates), cell(trace.ops.frees));
}

// Durations differ from run to run, and ids from program to program: neither makes another op.
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
  return trace.ops.alloc_peak[op] == other.ops.alloc_peak[other_op] &&
         same(trace.ops.reads, other.ops.reads) && same(trace.ops.writes, other.ops.writes) &&
         same(trace.ops.creates, other.ops.creates) && same(trace.ops.frees, other.ops.frees);
}

std::string differing_ops(char mark, const Trace& trace, std::size_t first, std::size_t last) {
  std::string text;
  const std::size_t shown = std::min(last, first + kDifferingOps);
  for (std::size_t op = first; op < shown; ++op) {
    text += row_of_line(mark + op_cells(trace, op), trace.ops.name[op]);
  }
  if (shown < last) text += fmt::format("{} ... and {} more\n", mark, last - shown);
  return text;
}

}  // namespace

std::string format_trace_ops(const Trace& trace) {
  std::string text = fmt::format("{:>6} {:>7} {:>8} {:>8} {:>8} {:>8}  {}\n", "op", "time", "reads",
                                 "writes", "creates", "frees", "name");
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    text += row_of_line(op_cells(trace, op), trace.ops.name[op]);
  }
  return text;
}

std::string format_trace_stats(const Trace& trace) {
  TimeNs time = 0;
  for (const TimeNs duration : trace.ops.duration_ns) time += duration;
  Bytes persistent{};
  for (std::size_t id = 0; id < trace.storages.size(); ++id) {
    if (trace.storages.persistent[id] != 0) persistent += trace.storages.bytes[id];
  }
  std::string text;
  if (!trace.framework.empty()) text += row_of_line("framework             ", trace.framework);
  if (!trace.machine.empty()) text += row_of_line("machine               ", trace.machine);
  text += fmt::format("ops                   {} in {}\n", trace.ops.size(), short_time(time));
  text += fmt::format("peak                  {}\n", short_bytes(peak_bytes(trace)));
  text += fmt::format("persistent            {}\n", short_bytes(persistent));
  text += working_set_line(trace);
  text += roles_table(trace);
  if (trace.ops.size() > 0) text += longest_ops(trace);
  return text;
}

std::string format_trace_diff(const Trace& trace, const Trace& other) {
  const auto total_time = [](const Trace& step) {
    return std::accumulate(step.ops.duration_ns.begin(), step.ops.duration_ns.end(), TimeNs{0});
  };
  const std::size_t shorter = std::min(trace.ops.size(), other.ops.size());
  std::size_t alike = 0;
  while (alike < shorter && same_op(trace, alike, other, alike)) ++alike;
  std::size_t alike_behind = 0;
  while (alike + alike_behind < shorter && same_op(trace, trace.ops.size() - 1 - alike_behind,
                                                   other, other.ops.size() - 1 - alike_behind)) {
    ++alike_behind;
  }
  std::string text = fmt::format("{:<22}{:>14}{:>14}\n", "", "first", "second");
  text += fmt::format("{:<22}{:>14}{:>14}\n", "ops", trace.ops.size(), other.ops.size());
  text += fmt::format("{:<22}{:>14}{:>14}\n", "time", short_time(total_time(trace)),
                      short_time(total_time(other)));
  text += fmt::format("{:<22}{:>14}{:>14}\n", "peak", short_bytes(peak_bytes(trace)),
                      short_bytes(peak_bytes(other)));
  text +=
      fmt::format("{:<22}{:>14}{:>14}\n", "storages", trace.storages.size(), other.storages.size());
  if (alike == trace.ops.size() && alike == other.ops.size()) {
    return text + "The ops are the same, with the same bytes.\n";
  }
  text += fmt::format("The first {} ops are alike, and the last {}. Between them:\n", alike,
                      alike_behind);
  text += differing_ops('-', trace, alike, trace.ops.size() - alike_behind);
  return text + differing_ops('+', other, alike, other.ops.size() - alike_behind);
}

std::string trace_text(const TraceRequest& request) {
  const Trace trace = read_trace(request.path);
  switch (request.view) {
    case TraceRequest::View::kShow:
      return format_trace_ops(trace);
    case TraceRequest::View::kStats:
      return format_trace_stats(trace);
    default:
      return format_trace_diff(trace, read_trace(request.other_path));
  }
}

}  // namespace spillway::tools
