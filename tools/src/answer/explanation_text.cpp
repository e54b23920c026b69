// SPDX-License-Identifier: Apache-2.0
#include "answer/explanation_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <variant>
#include <vector>

#include "answer/inputs_text.hpp"
#include "explain/plan_decisions.hpp"
#include "text/output_text.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

using AboutOp = ExplanationAnswer::AboutOp;
using AboutStorage = ExplanationAnswer::AboutStorage;

/// Its name in a line.
std::string_view condition(OtherWay way) {
  switch (way) {
    case OtherWay::kToHost:
      return "if it went to the host";
    case OtherWay::kToDisk:
      return "if it went to the disk";
    case OtherWay::kRecompute:
      return "if computed again instead";
    case OtherWay::kSwap:
      return "if copied out and in instead";
    default:
      return "if left alone";
  }
}

std::string place_text(const PlanPlace& place) {
  if (place.tiers == 0) return "nowhere: it is freed unused";
  std::vector<std::string_view> names;
  for (const Tier tier : kTiers) {
    if (place.on(tier)) names.push_back(to_string(tier));
  }
  return fmt::format("on {}", fmt::join(names, " and "));
}

std::string action_line(const PlanAction& action, const Trace& trace) {
  std::string what(to_string(action.kind));
  if (action.kind == PlanActionKind::kEvict) what += fmt::format(" to {}", to_string(action.tier));
  if (action.kind == PlanActionKind::kRecompute) {
    what = fmt::format("made again by op {}, {}", to_value(action.op),
                       short_time(trace.ops.duration_ns[to_value(action.op)]));
  }
  return printable(fmt::format("  {:<24} before {}", what, op_text(trace, action.at)), kColumns) +
         "\n";
}

std::string copies_text(const AboutStorage& about) {
  if (!about.copies) return "";
  return fmt::format("; copies take {} out and {} in", short_time(about.copies->out),
                     short_time(about.copies->in));
}

std::string kept_words(const ExplanationAnswer::Kept& kept, Bytes budget) {
  switch (kept.because) {
    case KeptBecause::kUnused:
      return "no op of the step uses it";
    case KeptBecause::kAlwaysNeeded:
      return "there is no time between its uses";
    case KeptBecause::kNothingBinds:
      return fmt::format("nothing binds while it is idle: {} of {} would do",
                         short_bytes(kept.alive), short_bytes(budget));
    case KeptBecause::kDearToMove:
      return "dear to move: its copies take longer than it is idle";
    default:
      return "others make the room that is needed";
  }
}

std::string why_lines(const AboutStorage& about, Bytes budget) {
  if (!about.kept) {
    return fmt::format("  why: not needed for {} of computing{}\n", short_time(about.unneeded_ns),
                       copies_text(about));
  }
  std::string lines =
      fmt::format("  stays: nothing is done with it\n  why: {}\n", kept_words(*about.kept, budget));
  if (about.kept->idle_ns) {
    lines += fmt::format("       not needed for {} of computing{}\n",
                         short_time(*about.kept->idle_ns), copies_text(about));
  }
  return lines;
}

std::string otherwise_line(std::string_view condition, const Outcome& outcome,
                           const ExplanationAnswer& answer) {
  if (const auto* failure = std::get_if<planning::SimulationFailure>(&outcome)) {
    const std::string short_by =
        failure->need == Bytes{0} ? failure->reason : to_string(failure->short_by()) + " short";
    return printable(fmt::format("  {}: {}, at {}", condition, short_by,
                                 op_text(answer.inputs.trace, failure->op)),
                     kColumns) +
           "\n";
  }
  const TimeNs step = std::get<TimeNs>(outcome);
  return fmt::format("  {}: the step takes {}, {} {}\n", condition, short_time(step),
                     short_time(std::abs(step - answer.step_ns)),
                     step < answer.step_ns ? "less" : "more");
}

std::string lines_about(const AboutStorage& about, const ExplanationAnswer& answer) {
  const Trace& trace = answer.inputs.trace;
  const Decision& decision = about.decision;
  const std::size_t row = to_value(decision.storage);
  std::string lines =
      fmt::format("storage {}: {}, {}, ", row, short_bytes(trace.storages.bytes[row]),
                  to_string(trace.storages.role[row]));
  lines += printable(about.origin, kColumns - std::min(kColumns, lines.size()));
  lines += '\n';
  if (decision.place) lines += "  begins " + place_text(*decision.place) + "\n";
  for (const PlanAction& action : decision.actions) lines += action_line(action, trace);
  lines += why_lines(about, answer.inputs.problem().budgets[Tier::kDevice]);
  for (const auto& [way, outcome] : about.otherwise) {
    lines += otherwise_line(condition(way), outcome, answer);
  }
  return lines;
}

std::string lines_about(const AboutOp& about, const ExplanationAnswer& answer) {
  const Trace& trace = answer.inputs.trace;
  const PlanAction& choice = about.choice;
  const OpAlternative& other = trace.ops.alternatives[choice.op][choice.alternative];
  const std::size_t op = to_value(choice.op);
  return printable(op_text(trace, choice.op), kColumns) +
         fmt::format(
             "\n  choose                   alternative {}: {}, workspace {}\n"
             "                           as recorded:   {}, workspace {}\n",
             choice.alternative, short_time(other.duration_ns), short_bytes(other.workspace),
             short_time(trace.ops.duration_ns[op]), short_bytes(trace.ops.workspace[op])) +
         otherwise_line("if it ran as recorded", about.if_recorded, answer);
}

std::string rest_line(std::size_t shown, std::size_t found, std::string_view kind) {
  if (shown == found) return "";
  return fmt::format("These are {} of {} {}: --top {} shows all.\n", shown, found, kind, found);
}

}  // namespace

std::string text_of(const ExplanationAnswer& answer) {
  std::string text;
  for (const AboutStorage& about : answer.storages) text += lines_about(about, answer);
  text += rest_line(answer.storages.size(), answer.storages_found, "storages, the largest");
  for (const AboutOp& about : answer.ops) text += lines_about(about, answer);
  text += rest_line(answer.ops.size(), answer.ops_found, "ops that run another way");
  if (text.empty()) text = "The plan does nothing there: all of it stays.\n";
  return heading(answer.inputs) + text;
}

}  // namespace spillway::tools
