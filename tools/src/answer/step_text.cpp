// SPDX-License-Identifier: Apache-2.0
#include "answer/step_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "answer/inputs_text.hpp"
#include "plan/trace_events.hpp"
#include "text/output_text.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

using planning::SimulationReport;

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

std::string planner_line(const std::string& planner) {
  constexpr std::size_t kWidth = 66;
  return fmt::format("planner       {}\n", planner.empty() ? "none" : printable(planner, kWidth));
}

std::string bound_line(const planning::LowerBound& bound, TimeNs step) {
  const double share = bound.step_ns == 0 ? 0
                                          : static_cast<double>(step - bound.step_ns) /
                                                static_cast<double>(bound.step_ns);
  std::string line = fmt::format("bound         {}: no plan is faster; this one is {} above",
                                 short_time(bound.step_ns), short_percent(share));
  if (const auto cause = bound.binds) {
    line += fmt::format("\n              what binds: {}", to_string(*cause));
  }
  return line + "\n";
}

std::string whereabouts_line(const std::optional<std::string>& path) {
  if (!path) return "plan          not kept: -o FILE writes it\n";
  // A path is printed whole, to be copied.
  return fmt::format("plan          written to {}\n", *path);
}

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
                        words_of(static_cast<planning::StallCause>(cause)));
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

}  // namespace

std::string text_of(const PlanAnswer& answer) {
  return planner_line(answer.planner) + heading(answer.inputs) +
         report_lines(answer.report, answer.inputs.problem()) +
         bound_line(answer.bound, answer.report.step_ns) + whereabouts_line(answer.written_to);
}

std::string text_of(const SimulationAnswer& answer) {
  return planner_line(answer.planner) + heading(answer.inputs) +
         report_lines(answer.report, answer.inputs.problem()) +
         (answer.bound ? bound_line(*answer.bound, answer.report.step_ns) : std::string());
}

std::string text_of(const FailureAnswer& answer) {
  const planning::SimulationFailure& failure = answer.failure;
  const Trace& trace = answer.inputs.trace;
  std::string text = fmt::format("The plan does not work: {}.\n", failure.reason);
  text += "where         " + op_text(trace, failure.op, kColumns - kIndent) + "\n";
  if (failure.need == Bytes{0}) return text;
  return text + fmt::format("{:<12}  need {}, have {}, short {}\n", to_string(failure.tier),
                            to_string(failure.need), to_string(failure.have),
                            to_string(failure.short_by()));
}

std::string text_of(const NoPlanAnswer& answer) {
  const planning::Infeasible& reason = answer.reason;
  std::string text = "No plan fits the budgets.\n";
  text += "binding       " + op_text(answer.inputs.trace, reason.op, kColumns - kIndent) + "\n";
  for (const Tier tier : kTiers) {
    const Bytes missing = reason.short_by[index_of(tier)];
    const Bytes have = answer.inputs.budgets.stated[tier];
    if (missing == Bytes{0}) continue;
    text += fmt::format("{:<12}  need {}, have {}, short {}\n", to_string(tier),
                        to_string(have + missing), to_string(have), to_string(missing));
  }
  if (reason.smallest_budget) {
    text += fmt::format("would fit     --budget {}B ({})\n", reason.smallest_budget->count,
                        to_string(*reason.smallest_budget));
  }
  for (const std::string& remedy : reason.remedies) {
    std::string_view mark = "* ";
    for (const std::string& line : wrap_text(remedy, kColumns - mark.size())) {
      text += fmt::format("{}{}\n", mark, line);
      mark = "  ";
    }
  }
  return text + margin_line(answer.inputs);
}

}  // namespace spillway::tools
