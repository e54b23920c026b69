// SPDX-License-Identifier: Apache-2.0
#include "plan/simulation_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

using planning::SimulationReport;
using planning::StallCause;
using planning::TimelineSpan;

constexpr std::array<std::string_view, planning::kStallCauseCount> kStallWords{
    "waiting for room", "waiting for a fetch", "fetching on demand", "waiting as planned",
    "computing again"};
constexpr std::array<std::string_view, 4> kSpanKinds{"op", "recompute", "stall", "copy"};
constexpr std::size_t kIndent = 14;

std::string op_text(const Trace& trace, OpIndex op, std::size_t width) {
  if (to_value(op) >= trace.ops.size()) return "at the end";
  const std::string number = fmt::format("op {}, ", to_value(op));
  return number + printable(trace.ops.name[to_value(op)], width - std::min(width, number.size()));
}

std::string peak_line(Tier tier, const SimulationReport& report, const planning::Problem& problem) {
  const planning::TierPeak& peak = report.peak[index_of(tier)];
  if (tier != Tier::kDevice && peak.bytes == Bytes{0}) return "";
  // A step without a plan is simulated with room for anything.
  constexpr Bytes kWithoutLimit{std::uint64_t{1} << 60};
  const Bytes budget = problem.budgets[tier];
  std::string line =
      fmt::format("{:<12}  peak {}{}, ", to_string(tier), short_bytes(peak.bytes),
                  budget < kWithoutLimit ? " of " + short_bytes(budget) : std::string());
  return line + op_text(problem.trace, peak.op, kColumns - line.size()) + "\n";
}

std::string link_line(LinkKind kind, const SimulationReport& report) {
  const planning::LinkUse& use = report.links[index_of(kind)];
  if (use.copies == 0) return "";
  const double share = report.step_ns == 0
                           ? 0
                           : static_cast<double>(use.busy_ns) / static_cast<double>(report.step_ns);
  return fmt::format("link          {}: {} in {} copies, busy {}\n", to_string(kind),
                     short_bytes(use.bytes), use.copies, short_percent(share));
}

std::string moved_lines(const SimulationReport& report) {
  std::string text;
  if (report.evictions > 0) {
    text += fmt::format("evicted       {} in {} copies\n", short_bytes(report.evicted),
                        report.evictions);
  }
  if (report.clean_evictions > 0) {
    text += fmt::format("evicted       {} clean, {} times without a copy\n",
                        short_bytes(report.clean_evicted), report.clean_evictions);
  }
  if (report.fetches > 0) {
    text +=
        fmt::format("fetched       {} in {} copies, {} on demand\n", short_bytes(report.fetched),
                    report.fetches,
                    report.demand_fetches == 0 ? "none" : std::to_string(report.demand_fetches));
  }
  if (text.empty() && report.recomputations == 0) return "moved         nothing: all of it fits\n";
  return text;
}

Json span_json(const TimelineSpan& span) {
  Json json{{"kind", kSpanKinds[static_cast<std::size_t>(span.kind)]},
            {"begin", span.begin},
            {"end", span.end},
            {"op", to_value(span.op)}};
  if (span.storage != kNoStorage) json["storage"] = to_value(span.storage);
  if (span.kind == TimelineSpan::Kind::kCopy) json["link"] = to_string(span.link);
  if (span.kind == TimelineSpan::Kind::kStall) json["cause"] = to_string(span.cause);
  return json;
}

/// For each role that the device ever holds its bytes, one for each level.
Json roles_json(const std::vector<planning::TimelineLevel>& levels) {
  Json json = Json::object();
  for (std::size_t role = 0; role < kStorageRoleCount; ++role) {
    Json held = Json::array();
    bool any = false;
    for (const planning::TimelineLevel& level : levels) {
      any = any || level.on_device[role] != Bytes{0};
      held.push_back(level.on_device[role].count);
    }
    if (any) json[std::string(to_string(static_cast<StorageRole>(role)))] = std::move(held);
  }
  return json;
}

}  // namespace

std::string report_lines(const SimulationReport& report, const planning::Problem& problem) {
  const TimeNs over = report.step_ns - report.compute_ns;
  const double share = report.compute_ns == 0
                           ? 0
                           : static_cast<double>(over) / static_cast<double>(report.compute_ns);
  std::string text =
      fmt::format("step          {}, {} over {} of computing\n", short_time(report.step_ns),
                  short_percent(share), short_time(report.compute_ns));
  for (std::size_t cause = 0; cause < planning::kStallCauseCount; ++cause) {
    if (report.stall_ns[cause] == 0) continue;
    text += fmt::format("{:>{}}{} {}\n", "", kIndent, short_time(report.stall_ns[cause]),
                        kStallWords[cause]);
  }
  for (const Tier tier : kTiers) text += peak_line(tier, report, problem);
  text += moved_lines(report);
  if (report.recomputations > 0) {
    text += fmt::format("recomputed    {} ops, of {} dropped\n", report.recomputations,
                        short_bytes(report.dropped));
  }
  for (const LinkKind link : kLinks) text += link_line(link, report);
  return text;
}

std::string failure_lines(const planning::SimulationFailure& failure, const Trace& trace) {
  std::string text = fmt::format("The plan does not work: {}.\n", failure.reason);
  text += "where         " + op_text(trace, failure.op, kColumns - kIndent) + "\n";
  if (failure.need == Bytes{0}) return text;
  return text + fmt::format("{:<12}  need {}, have {}, short {}\n", to_string(failure.tier),
                            to_string(failure.need), to_string(failure.have),
                            to_string(failure.short_by()));
}

std::string infeasible_lines(const planning::Infeasible& answer, const Trace& trace,
                             const Budgets& budgets) {
  std::string text = "No plan fits the budgets.\n";
  text += "binding       " + op_text(trace, answer.op, kColumns - kIndent) + "\n";
  for (const Tier tier : kTiers) {
    const Bytes missing = answer.short_by[index_of(tier)];
    const Bytes have = budgets[tier];
    if (missing == Bytes{0}) continue;
    text += fmt::format("{:<12}  need {}, have {}, short {}\n", to_string(tier),
                        to_string(have + missing), to_string(have), to_string(missing));
  }
  if (answer.smallest_budget) {
    text += fmt::format("would fit     --budget {}B ({})\n", answer.smallest_budget->count,
                        to_string(*answer.smallest_budget));
  }
  for (const std::string& remedy : answer.remedies) {
    std::string_view mark = "* ";
    for (const std::string& line : wrap_text(remedy, kColumns - mark.size())) {
      text += fmt::format("{}{}\n", mark, line);
      mark = "  ";
    }
  }
  return text;
}

Json budgets_json(const Budgets& budgets) {
  Json json = Json::object();
  for (const Tier tier : kTiers) json[std::string(to_string(tier))] = budgets[tier].count;
  return json;
}

Json report_json(const SimulationReport& report, bool timeline) {
  Json stalls = Json::object();
  for (std::size_t cause = 0; cause < planning::kStallCauseCount; ++cause) {
    stalls[std::string(to_string(static_cast<StallCause>(cause)))] = report.stall_ns[cause];
  }
  Json peaks = Json::object();
  for (const Tier tier : kTiers) {
    const planning::TierPeak& peak = report.peak[index_of(tier)];
    peaks[std::string(to_string(tier))] =
        Json{{"bytes", peak.bytes.count}, {"op", to_value(peak.op)}};
  }
  Json links = Json::object();
  for (const LinkKind kind : kLinks) {
    const planning::LinkUse& use = report.links[index_of(kind)];
    links[std::string(to_string(kind))] =
        Json{{"bytes", use.bytes.count}, {"copies", use.copies}, {"busy_ns", use.busy_ns}};
  }
  Json json{{"feasible", true},
            {"step_ns", report.step_ns},
            {"compute_ns", report.compute_ns},
            {"stall_ns", std::move(stalls)},
            {"peak", std::move(peaks)},
            {"links", std::move(links)},
            {"evictions", report.evictions},
            {"clean_evictions", report.clean_evictions},
            {"fetches", report.fetches},
            {"demand_fetches", report.demand_fetches},
            {"recomputations", report.recomputations},
            {"evicted", report.evicted.count},
            {"clean_evicted", report.clean_evicted.count},
            {"fetched", report.fetched.count},
            {"dropped", report.dropped.count}};
  if (!timeline) return json;
  Json spans = Json::array();
  for (const TimelineSpan& span : report.timeline.spans) spans.push_back(span_json(span));
  Json levels = Json::array();
  for (const planning::TimelineLevel& level : report.timeline.levels) {
    levels.push_back(
        {level.time, level.bytes[0].count, level.bytes[1].count, level.bytes[2].count});
  }
  json["timeline"] = Json{{"spans", std::move(spans)},
                          {"levels", std::move(levels)},
                          {"roles", roles_json(report.timeline.levels)}};
  return json;
}

Json failure_json(const planning::SimulationFailure& failure) {
  return Json{{"feasible", false},
              {"op", to_value(failure.op)},
              {"tier", to_string(failure.tier)},
              {"need", failure.need.count},
              {"have", failure.have.count},
              {"short", failure.short_by().count},
              {"reason", failure.reason}};
}

Json infeasible_json(const planning::Infeasible& answer) {
  Json missing = Json::object();
  for (const Tier tier : kTiers) {
    missing[std::string(to_string(tier))] = answer.short_by[index_of(tier)].count;
  }
  Json json{{"feasible", false}, {"op", to_value(answer.op)}, {"short", std::move(missing)}};
  json["smallest_budget"] = nullptr;
  if (answer.smallest_budget) json["smallest_budget"] = answer.smallest_budget->count;
  json["remedies"] = answer.remedies;
  return json;
}

Json bound_json(const planning::LowerBound& bound) {
  Json extra = Json::object();
  for (std::size_t cause = 0; cause < planning::kBoundCauseCount; ++cause) {
    extra[std::string(to_string(static_cast<planning::BoundCause>(cause)))] = bound.extra_ns[cause];
  }
  return Json{{"step_ns", bound.step_ns},
              {"compute_ns", bound.compute_ns},
              {"binds", bound.binds ? to_string(*bound.binds) : std::string_view("computing")},
              {"extra_ns", std::move(extra)}};
}

std::string perfetto_text(const SimulationReport& report, const Trace& trace) {
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
  for (const TimelineSpan& span : report.timeline.spans) {
    const bool copy = span.kind == TimelineSpan::Kind::kCopy;
    std::string name;
    if (span.kind == TimelineSpan::Kind::kStall) {
      name = kStallWords[index_of(span.cause)];
    } else if (copy) {
      const std::string_view storage = trace.storages.name[to_value(span.storage)];
      name = storage.empty() ? fmt::format("storage {}", to_value(span.storage)) : storage;
    } else {
      name = trace.ops.name[to_value(span.op)];
    }
    events.push_back({{"name", name},
                      {"cat", kSpanKinds[static_cast<std::size_t>(span.kind)]},
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
