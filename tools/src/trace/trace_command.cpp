// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "machine/machine_lookup.hpp"
#include "spillway/machine/machine_io.hpp"
#include "spillway/planning/analysis/depth_first.hpp"
#include "spillway/planning/kernel_workspace.hpp"
#include "spillway/trace/trace_io.hpp"
#include "text/output_text.hpp"
#include "text/quantity_text.hpp"
#include "trace/trace_reading.hpp"
#include "trace/trace_summary.hpp"

namespace spillway::tools {
namespace {

constexpr std::size_t kLongestOps = 5;
constexpr std::size_t kDifferingOps = 15;

std::string row_of_line(std::string front, std::string_view name) {
  const std::size_t left = kColumns - front.size();
  return std::move(front) + printable(name, left) + "\n";
}

std::string bytes_cell(Bytes bytes) { return bytes == Bytes{0} ? "-" : short_bytes(bytes); }

// A step recorded without running has no durations, which is not the same as taking no time.
std::string time_cell(const Trace& trace, TimeNs time) {
  return trace.timed ? short_time(time) : "-";
}

std::string roles_table(const TraceSummary& summary) {
  std::string text = fmt::format("\n{:<20}{:>10}{:>12}\n", "storages", "count", "bytes");
  for (std::size_t role = 0; role < kStorageRoleCount; ++role) {
    const RoleSum& sum = summary.roles[role];
    if (sum.count == 0) continue;
    text += fmt::format("  {:<18}{:>10}{:>12}\n", to_string(static_cast<StorageRole>(role)),
                        sum.count, short_bytes(sum.bytes));
  }
  return text;
}

std::string longest_ops(const Trace& trace, const TraceSummary& summary) {
  std::string text = fmt::format("\n{:>12}{:>10}  {}\n", "time", "count",
                                 trace.timed ? "longest ops" : "most frequent ops");
  for (std::size_t i = 0; i < std::min(summary.ops.size(), kLongestOps); ++i) {
    const OpSum& sum = summary.ops[i];
    text += row_of_line(fmt::format("{:>12}{:>10}  ", time_cell(trace, sum.time_ns), sum.count),
                        sum.name);
  }
  return text;
}

/// The columns of bytes in front of an op's name.
std::string op_cells(const Trace& trace, std::size_t op) {
  const auto cell = [&](const StorageLists& lists) {
    return bytes_cell(bytes_of(trace, lists[OpIndex{op}]));
  };
  return fmt::format("{:>6} {:>7} {:>8} {:>8} {:>8} {:>8}  ", op,
                     time_cell(trace, trace.ops.duration_ns[op]), cell(trace.ops.reads),
                     cell(trace.ops.writes), cell(trace.ops.creates), cell(trace.ops.frees));
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

Json op_json(const Trace& trace, std::size_t op) {
  Json row{{"op", op}, {"name", std::string(trace.ops.name[op])}};
  if (trace.timed) row["ns"] = trace.ops.duration_ns[op];
  if (trace.ops.workspace[op] != Bytes{0}) row["workspace"] = trace.ops.workspace[op].count;
  if (!trace.ops.module[op].empty()) row["module"] = std::string(trace.ops.module[op]);
  if (!trace.ops.source[op].empty()) row["source"] = std::string(trace.ops.source[op]);
  const auto add = [&](const char* name, const StorageLists& lists) {
    row[name] = bytes_of(trace, lists[OpIndex{op}]).count;
  };
  add("reads", trace.ops.reads);
  add("writes", trace.ops.writes);
  add("creates", trace.ops.creates);
  add("frees", trace.ops.frees);
  add("views", trace.ops.views);
  return row;
}

Json ops_json(const Trace& trace, std::size_t first, std::size_t last) {
  Json rows = Json::array();
  for (std::size_t op = first; op < last; ++op) rows.push_back(op_json(trace, op));
  return rows;
}

Json totals_json(const Trace& trace, const TraceSummary& summary) {
  Json json{{"framework", trace.framework},
            {"machine", trace.machine},
            {"timed", trace.timed},
            {"workspace_known", trace.workspace_known},
            {"ops", trace.ops.size()},
            {"storages", trace.storages.size()},
            {"time_ns", nullptr},
            {"peak", summary.peak.count},
            {"floor", summary.floor.count},
            {"step_peak", summary.step_peak.count},
            {"persistent", summary.persistent.count}};
  if (trace.timed) json["time_ns"] = summary.time_ns;
  return json;
}

Json stats_json(const Trace& trace) {
  const TraceSummary summary = summary_of(trace);
  Json json = totals_json(trace, summary);
  json["largest_working_set"] =
      Json{{"bytes", summary.largest_working_set.count}, {"op", summary.largest_op}};
  json["roles"] = Json::object();
  for (std::size_t role = 0; role < kStorageRoleCount; ++role) {
    const RoleSum& sum = summary.roles[role];
    if (sum.count == 0) continue;
    json["roles"][std::string(to_string(static_cast<StorageRole>(role)))] =
        Json{{"count", sum.count}, {"bytes", sum.bytes.count}};
  }
  json["by_name"] = Json::array();
  for (const OpSum& sum : summary.ops) {
    json["by_name"].push_back(
        {{"name", std::string(sum.name)}, {"ns", sum.time_ns}, {"count", sum.count}});
  }
  return json;
}

Json diff_json(const Trace& trace, const Trace& other) {
  const TraceAgreement alike = agreement_of(trace, other);
  return {
      {"same", alike.first == trace.ops.size() && alike.first == other.ops.size()},
      {"same_names", alike.same_names},
      {"alike_first", alike.first},
      {"alike_last", alike.last},
      {"totals", {totals_json(trace, summary_of(trace)), totals_json(other, summary_of(other))}},
      {"only_in_first", ops_json(trace, alike.first, trace.ops.size() - alike.last)},
      {"only_in_second", ops_json(other, alike.first, other.ops.size() - alike.last)}};
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
  const TraceSummary summary = summary_of(trace);
  std::string text;
  if (!trace.framework.empty()) text += row_of_line("framework             ", trace.framework);
  if (!trace.machine.empty()) text += row_of_line("machine               ", trace.machine);
  text += fmt::format("ops                   {}{}\n", trace.ops.size(),
                      trace.timed ? " in " + short_time(summary.time_ns)
                                  : ", recorded without running: no durations");
  // With all digits, as the summary of the run has them.
  const char* lacking = trace.workspace_known ? "" : " without workspace";
  text += fmt::format("peak                  {}{}\n", to_string(summary.peak), lacking);
  text += fmt::format("floor                 {}{}\n", to_string(summary.floor), lacking);
  text += fmt::format("this step's tensors   {} at once, {} persistent\n",
                      short_bytes(summary.step_peak), short_bytes(summary.persistent));
  if (trace.ops.size() == 0) return text + roles_table(summary);
  text += row_of_line(fmt::format("largest working set   {}, of op {}, ",
                                  short_bytes(summary.largest_working_set), summary.largest_op),
                      trace.ops.name[summary.largest_op]);
  return text + roles_table(summary) + longest_ops(trace, summary);
}

std::string format_trace_diff(const Trace& trace, const Trace& other) {
  std::string text;
  const auto row = [&](std::string_view what, const auto& first, const auto& second) {
    text += fmt::format("{:<22}{:>14}{:>14}\n", what, first, second);
  };
  const TraceSummary mine = summary_of(trace);
  const TraceSummary theirs = summary_of(other);
  row("", "first", "second");
  row("ops", trace.ops.size(), other.ops.size());
  row("time", time_cell(trace, mine.time_ns), time_cell(other, theirs.time_ns));
  row("step's tensors", short_bytes(mine.step_peak), short_bytes(theirs.step_peak));
  row("storages", trace.storages.size(), other.storages.size());
  const TraceAgreement alike = agreement_of(trace, other);
  if (alike.first == trace.ops.size() && alike.first == other.ops.size()) {
    return text + "The ops are the same, with the same bytes.\n";
  }
  if (alike.same_names) text += "The ops are the same by name, with other bytes.\n";
  text += fmt::format("The first {} ops are alike, and the last {}. Between them:\n", alike.first,
                      alike.last);
  text += differing_ops('-', trace, alike.first, trace.ops.size() - alike.last);
  return text + differing_ops('+', other, alike.first, other.ops.size() - alike.last);
}

// The machine with what the step taught, written to its file.
std::string learned_text(const TraceRequest& request, const Trace& trace) {
  Machine machine = find_machine(request.machine);
  const std::size_t before = machine.workspace.value.size();
  const std::string step = std::filesystem::path(request.path).filename().string();
  const std::string where = trace.machine.empty() ? "" : fmt::format(" on {}", trace.machine);
  planning::learn_workspace(machine, trace, fmt::format("measured: {}{}", step, where));
  machine.name = std::filesystem::path(request.output_path).stem().string();
  write_machine(machine, request.output_path);
  const std::size_t kinds = machine.workspace.value.size();
  if (request.json) {
    return json_text({{"machine", request.output_path}, {"kinds", kinds}, {"new", kinds - before}});
  }
  return fmt::format("{} knows the workspace of {} kinds of ops by size, {} of them new.\n",
                     request.output_path, kinds, kinds - before);
}

// The step in depth-first order, written to a file. That it is no recording stands beside the
// framework's name.
std::string reordered_text(const TraceRequest& request, const Trace& trace) {
  constexpr std::string_view kMark = "ops in depth-first order";
  const std::vector<OpIndex> order = planning::depth_first_order(trace);
  Trace other = planning::reordered(trace, order);
  if (!other.framework.ends_with(kMark)) {
    other.framework += fmt::format("{}{}", other.framework.empty() ? "" : "; ", kMark);
  }
  write_trace(other, request.output_path);
  std::size_t moved = 0;
  for (std::size_t at = 0; at < order.size(); ++at) {
    if (to_value(order[at]) != at) ++moved;
  }
  const Bytes before = peak_bytes(trace);
  const Bytes after = peak_bytes(other);
  if (request.json) {
    return json_text({{"trace", request.output_path},
                      {"ops", order.size()},
                      {"moved", moved},
                      {"peak_before", before.count},
                      {"peak", after.count}});
  }
  return fmt::format(
      "{} has the {} ops of the step in depth-first order, {} of them in another place.\n"
      "Its peak{} is {}, in the program's order {}.\n",
      request.output_path, order.size(), moved, trace.workspace_known ? "" : " without workspace",
      to_string(after), to_string(before));
}

std::string trace_text(const TraceRequest& request) {
  const Trace trace = read_trace_shown(request.path);
  switch (request.view) {
    case TraceRequest::View::kWorkspace:
      return learned_text(request, trace);
    case TraceRequest::View::kReorder:
      return reordered_text(request, trace);
    case TraceRequest::View::kShow:
      return request.json ? json_text(ops_json(trace, 0, trace.ops.size()))
                          : format_trace_ops(trace);
    case TraceRequest::View::kStats:
      return request.json ? json_text(stats_json(trace)) : format_trace_stats(trace);
    default:
      const Trace other = read_trace_shown(request.other_path);
      return request.json ? json_text(diff_json(trace, other)) : format_trace_diff(trace, other);
  }
}

}  // namespace spillway::tools
