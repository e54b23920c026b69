// SPDX-License-Identifier: Apache-2.0
#include "run/run_json.hpp"

#include <cstdint>
#include <filesystem>

#include "spillway/trace/trace_io.hpp"
#include "text/output_text.hpp"
#include "trace/trace_summary.hpp"

namespace spillway::tools {
namespace {

// One line, so that it can be told from what the program printed before: `tail -n 1`.
std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json end_json(const ProgramEnd& end) {
  Json json{{"exit_status", end.code}};
  if (end.signal != 0) json = Json{{"signal", end.signal}};
  return json;
}

}  // namespace

std::string run_json(const ProgramEnd& end, std::span<const ProcessStatus> processes) {
  Json json = end_json(end);
  json["managed"] = !processes.empty();
  if (processes.empty()) return one_line(json);
  const StatusTotals totals = total_of(processes);
  const ProcessStatus& sum = totals.sum;
  json["mode"] = to_string(sum.mode);
  json["planner"] = sum.planner;
  json["notes"] = sum.notes;
  json["processes"] = totals.processes;
  json["elapsed_ns"] = totals.longest_elapsed;
  json["budget"] = totals.fullest.budget.count;
  json["peak_device"] = totals.fullest.peak_device.count;
  json["floor"] = totals.fullest.floor.count;
  json["evicted"] = sum.evicted.count;
  json["clean_evicted"] = sum.clean_evicted.count;
  json["fetched"] = sum.fetched.count;
  json["disk_written"] = sum.disk_written.count;
  json["disk_read"] = sum.disk_read.count;
  json["stall_ns"] = sum.stall;
  json["mapping_ns"] = sum.mapping;
  json["overshoot"] = sum.overshoot.count;
  json["out_of_memory"] = sum.died_short && (end.code != 0 || end.signal != 0);
  json["shortages"] = sum.shortages;
  json["short"] = sum.short_by.count;
  json["steps"] = sum.steps;
  json["stopped_after_step"] = sum.stopped_after_step;
  json["last_step_ns"] = sum.last_step;
  json["last_step_moved"] = sum.last_step_moved.count;
  return one_line(json);
}

std::string record_json(const ProgramEnd& end, const std::string& path, bool written) {
  Json json = end_json(end);
  if (!written) {
    json["trace"] = nullptr;
    return one_line(json);
  }
  const Trace trace = read_trace(path);
  json["trace"] = path;
  json["file_bytes"] = static_cast<std::uint64_t>(std::filesystem::file_size(path));
  json["ops"] = trace.ops.size();
  json["storages"] = trace.storages.size();
  const TraceSummary summary = summary_of(trace);
  json["peak"] = summary.peak.count;
  json["floor"] = summary.floor.count;
  json["timed"] = trace.timed;
  return one_line(json);
}

}  // namespace spillway::tools
