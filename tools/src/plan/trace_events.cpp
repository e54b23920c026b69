// SPDX-License-Identifier: Apache-2.0
#include "plan/trace_events.hpp"

#include <fmt/format.h>

#include <array>

#include "text/output_text.hpp"

namespace spillway::tools {

std::string_view words_of(planning::StallCause cause) {
  constexpr std::array<std::string_view, planning::kStallCauseCount> kWords{
      "waiting for room", "waiting for a fetch", "fetching on demand", "waiting as planned",
      "computing again"};
  return kWords[index_of(cause)];
}

std::string_view word_of(planning::TimelineSpan::Kind kind) {
  constexpr std::array<std::string_view, 4> kWords{"op", "recompute", "stall", "copy"};
  return kWords[static_cast<std::size_t>(kind)];
}

std::string trace_events(const planning::SimulationReport& report, const Trace& trace) {
  constexpr double kNsPerUs = 1e3;
  Json events = Json::array();
  const auto name_track = [&events](std::size_t track, std::string_view name) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 1},
                      {"tid", track},
                      {"args", {{"name", name}}}});
  };
  name_track(0, "compute");
  for (const LinkKind link : kLinks) name_track(1 + index_of(link), to_string(link));
  for (const planning::TimelineSpan& span : report.timeline.spans) {
    const bool copy = span.kind == planning::TimelineSpan::Kind::kCopy;
    std::string name;
    if (span.kind == planning::TimelineSpan::Kind::kStall) {
      name = words_of(span.cause);
    } else if (copy) {
      const std::string_view storage = trace.storages.name[to_value(span.storage)];
      name = storage.empty() ? fmt::format("storage {}", to_value(span.storage)) : storage;
    } else {
      name = trace.ops.name[to_value(span.op)];
    }
    events.push_back({{"name", name},
                      {"cat", word_of(span.kind)},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", copy ? 1 + index_of(span.link) : 0},
                      {"ts", static_cast<double>(span.begin) / kNsPerUs},
                      {"dur", static_cast<double>(span.end - span.begin) / kNsPerUs},
                      {"args", {{"op", to_value(span.op)}}}});
  }
  for (const planning::TimelineLevel& level : report.timeline.levels) {
    events.push_back({{"name", "bytes held"},
                      {"ph", "C"},
                      {"pid", 1},
                      {"ts", static_cast<double>(level.time) / kNsPerUs},
                      {"args",
                       {{"device", level.bytes[0].count},
                        {"host", level.bytes[1].count},
                        {"disk", level.bytes[2].count}}}});
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}}.dump(
             -1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace spillway::tools
