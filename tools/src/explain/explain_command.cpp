// SPDX-License-Identifier: Apache-2.0
// `spillway explain`: the decisions of a plan in words, with what the alternative would have cost.
//
// The decision about a storage is judged by the other ways (plan_variants.hpp): the same plan with
// that one decision changed is simulated, and is longer, shorter or does not fit.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "explain/other_outcomes.hpp"
#include "explain/plan_decisions.hpp"
#include "explain/storage_uses.hpp"
#include "plan/planning_commands.hpp"
#include "plan/planning_inputs.hpp"
#include "plan/simulation_text.hpp"
#include "spillway/base/error.hpp"
#include "spillway/plan/plan_io.hpp"
#include "text/progress_line.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

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

std::string trace_path_of(const PlanningRequest& request, const Plan& plan) {
  namespace fs = std::filesystem;
  if (request.trace_path) return *request.trace_path;
  if (plan.trace.empty()) {
    throw UserError(fmt::format("plan {} does not say of which trace it is: give --trace FILE.",
                                request.files.front()));
  }
  std::error_code error;
  if (fs::exists(plan.trace, error)) return plan.trace;
  // Plan and trace may have moved together.
  return (fs::path(request.files.front()).parent_path() / fs::path(plan.trace).filename()).string();
}

class Explainer {
 public:
  /// All are borrowed.
  Explainer(const PlanningInputs& inputs, const PlanDecisions& decisions, const StorageUses& uses,
            OtherOutcomes& others)
      : inputs_(inputs),
        trace_(inputs.trace),
        decisions_(decisions),
        uses_(uses),
        others_(others) {}

  std::string text(const PlanAction& choice) {
    const OpAlternative& other = alternative_of(choice);
    const std::size_t op = to_value(choice.op);
    return printable(op_text(trace_, choice.op), kColumns) +
           fmt::format(
               "\n  choose                   alternative {}: {}, workspace {}\n"
               "                           as recorded:   {}, workspace {}\n",
               choice.alternative, short_time(other.duration_ns), short_bytes(other.workspace),
               short_time(trace_.ops.duration_ns[op]), short_bytes(trace_.ops.workspace[op])) +
           otherwise_line("if it ran as recorded", others_.without(choice));
  }

  Json json(const PlanAction& choice) {
    const OpAlternative& other = alternative_of(choice);
    const std::size_t op = to_value(choice.op);
    return {{"op", op},
            {"name", std::string(trace_.ops.name[op])},
            {"alternative", choice.alternative},
            {"ns", other.duration_ns},
            {"workspace", other.workspace.count},
            {"recorded_ns", trace_.ops.duration_ns[op]},
            {"recorded_workspace", trace_.ops.workspace[op].count},
            {"if_recorded", outcome_json(others_.without(choice))}};
  }

  std::string text(const Decision& decision) {
    const std::size_t row = to_value(decision.storage);
    std::string lines =
        fmt::format("storage {}: {}, {}, ", row, short_bytes(bytes_of(decision.storage)),
                    to_string(trace_.storages.role[row]));
    lines +=
        printable(decisions_.origin(decision.storage), kColumns - std::min(kColumns, lines.size()));
    lines += '\n';
    if (decision.place) lines += "  begins " + place_text(*decision.place) + "\n";
    for (const PlanAction& action : decision.actions) lines += action_line(action);
    lines += decision.is_kept() ? kept_lines(decision.storage) : why_line(decision);
    return lines + otherwise_lines(others_.of(decision));
  }

  Json json(const Decision& decision) {
    const std::size_t row = to_value(decision.storage);
    Json actions = Json::array();
    for (const PlanAction& action : decision.actions) {
      Json entry{{"at", to_value(action.at)}, {"do", to_string(action.kind)}};
      if (action.kind == PlanActionKind::kEvict) entry["tier"] = to_string(action.tier);
      if (action.kind == PlanActionKind::kRecompute) entry["op"] = to_value(action.op);
      actions.push_back(std::move(entry));
    }
    Json json{{"storage", row},
              {"name", std::string(trace_.storages.name[row])},
              {"origin", decisions_.origin(decision.storage)},
              {"role", to_string(trace_.storages.role[row])},
              {"bytes", bytes_of(decision.storage).count},
              {"actions", std::move(actions)},
              {"unneeded_ns", unneeded(decision)}};
    if (decision.is_kept()) json["kept_because"] = kept_because(decision.storage).first;
    Json others = Json::object();
    for (const auto& [way, outcome] : others_.of(decision)) {
      others[std::string(to_string(way))] = outcome_json(outcome);
    }
    json["if_kept"] = decision.is_kept() ? outcome_json(others_.step_ns()) : others["left-alone"];
    json["otherwise"] = std::move(others);
    return json;
  }

 private:
  static std::string place_text(const PlanPlace& place) {
    if (place.tiers == 0) return "nowhere: it is freed unused";
    std::vector<std::string_view> names;
    for (const Tier tier : kTiers) {
      if (place.on(tier)) names.push_back(to_string(tier));
    }
    return fmt::format("on {}", fmt::join(names, " and "));
  }

  [[nodiscard]] std::string action_line(const PlanAction& action) const {
    std::string what(to_string(action.kind));
    if (action.kind == PlanActionKind::kEvict)
      what += fmt::format(" to {}", to_string(action.tier));
    if (action.kind == PlanActionKind::kRecompute) {
      what = fmt::format("made again by op {}, {}", to_value(action.op),
                         short_time(trace_.ops.duration_ns[to_value(action.op)]));
    }
    return printable(fmt::format("  {:<24} before {}", what, op_text(trace_, action.at)),
                     kColumns) +
           "\n";
  }

  /// The longest stretch without a use in which the plan has it away; of one that is kept, of all.
  [[nodiscard]] TimeNs unneeded(const Decision& decision) const {
    if (decision.is_kept()) {
      const auto longest = uses_.longest(decision.storage);
      return longest ? longest->ns : 0;
    }
    const auto around = [&](OpIndex at) { return uses_.around(decision.storage, at).ns; };
    TimeNs longest = 0;
    if (decision.place && !decision.place->on(Tier::kDevice)) longest = around(OpIndex{0});
    for (const PlanAction& action : decision.actions) {
      if (action.kind == PlanActionKind::kEvict || action.kind == PlanActionKind::kDrop) {
        longest = std::max(longest, around(action.at));
      }
    }
    return longest;
  }

  struct CopyTimes {
    TimeNs out = 0;
    TimeNs in = 0;
  };
  [[nodiscard]] std::optional<CopyTimes> copies_of(StorageId storage) const {
    // A machine that trains on its processor copies between memory and disk.
    const bool has_host = inputs_.machine.link(LinkKind::kDeviceToHost).has_value();
    const auto& out =
        inputs_.machine.link(has_host ? LinkKind::kDeviceToHost : LinkKind::kHostToDisk);
    const auto& in =
        inputs_.machine.link(has_host ? LinkKind::kHostToDevice : LinkKind::kDiskToHost);
    if (!out || !in) return std::nullopt;
    return CopyTimes{copy_time(*out, bytes_of(storage)), copy_time(*in, bytes_of(storage))};
  }

  [[nodiscard]] std::string why_line(const Decision& decision) const {
    return fmt::format("  why: not needed for {} of computing{}\n", short_time(unneeded(decision)),
                       copies_text(decision.storage));
  }

  [[nodiscard]] std::string copies_text(StorageId storage) const {
    const auto copies = copies_of(storage);
    if (!copies) return "";
    return fmt::format("; copies take {} out and {} in", short_time(copies->out),
                       short_time(copies->in));
  }

  /// The reason why one stays that nothing is done with: a word, and words.
  [[nodiscard]] std::pair<std::string_view, std::string> kept_because(StorageId storage) const {
    const auto stretch = uses_.longest(storage);
    if (!stretch && uses_.of(storage).empty()) return {"never-used", "no op of the step uses it"};
    if (!stretch) return {"always-needed", "there is no time between its uses"};
    const Bytes alive = uses_.most_alive(*stretch);
    const Bytes budget = inputs_.budgets[Tier::kDevice];
    if (alive <= budget) {
      return {"nothing-binds", fmt::format("nothing binds while it is idle: {} of {} would do",
                                           short_bytes(alive), short_bytes(budget))};
    }
    const auto copies = copies_of(storage);
    if (copies && copies->out + copies->in > stretch->ns) {
      return {"dear-to-move", "dear to move: its copies take longer than it is idle"};
    }
    return {"others-make-room", "others make the room that is needed"};
  }

  [[nodiscard]] std::string kept_lines(StorageId storage) const {
    std::string lines =
        fmt::format("  stays: nothing is done with it\n  why: {}\n", kept_because(storage).second);
    if (const auto stretch = uses_.longest(storage)) {
      lines += fmt::format("       not needed for {} of computing{}\n", short_time(stretch->ns),
                           copies_text(storage));
    }
    return lines;
  }

  static Json outcome_json(const Outcome& outcome) {
    if (const auto* step = std::get_if<TimeNs>(&outcome)) {
      return {{"feasible", true}, {"step_ns", *step}};
    }
    return failure_json(std::get<planning::SimulationFailure>(outcome));
  }

  [[nodiscard]] const OpAlternative& alternative_of(const PlanAction& choice) const {
    return trace_.ops.alternatives[choice.op][choice.alternative];
  }

  [[nodiscard]] std::string otherwise_lines(
      const std::vector<std::pair<OtherWay, Outcome>>& outcomes) const {
    std::string lines;
    for (const auto& [way, outcome] : outcomes) lines += otherwise_line(condition(way), outcome);
    return lines;
  }

  [[nodiscard]] std::string otherwise_line(std::string_view condition,
                                           const Outcome& outcome) const {
    if (const auto* failure = std::get_if<planning::SimulationFailure>(&outcome)) {
      const std::string short_by =
          failure->need == Bytes{0} ? failure->reason : to_string(failure->short_by()) + " short";
      return printable(
                 fmt::format("  {}: {}, at {}", condition, short_by, op_text(trace_, failure->op)),
                 kColumns) +
             "\n";
    }
    const TimeNs step = std::get<TimeNs>(outcome);
    const TimeNs planned = others_.step_ns();
    return fmt::format("  {}: the step takes {}, {} {}\n", condition, short_time(step),
                       short_time(std::abs(step - planned)), step < planned ? "less" : "more");
  }

  [[nodiscard]] Bytes bytes_of(StorageId storage) const {
    return trace_.storages.bytes[to_value(storage)];
  }

  const PlanningInputs& inputs_;
  const Trace& trace_;
  const PlanDecisions& decisions_;
  const StorageUses& uses_;
  OtherOutcomes& others_;
};

// The first of what the request asks about, and how much there is of it.
struct Asked {
  Asked(const PlanDecisions& of_plan, const PlanningRequest& request)
      : decisions(of_plan.about_storages(request)),
        choices(of_plan.choices(request)),
        decisions_found(decisions.size()),
        choices_found(choices.size()) {
    decisions.resize(std::min(decisions_found, request.top));
    choices.resize(std::min(choices_found, request.top));
  }

  std::vector<Decision> decisions;
  std::vector<PlanAction> choices;
  std::size_t decisions_found, choices_found;
};

std::string progress_name(const Decision& decision) {
  return fmt::format("storage {}", to_value(decision.storage));
}
std::string progress_name(const PlanAction& choice) {
  return fmt::format("op {}", to_value(choice.op));
}

std::string asked_json(const Asked& asked, std::string_view planner, const PlanningInputs& inputs,
                       Explainer& explainer, ProgressLine& progress) {
  const auto list_of = [&](const auto& what) {
    Json list = Json::array();
    for (const auto& one : what) {
      progress.begin(progress_name(one));
      list.push_back(explainer.json(one));
    }
    return list;
  };
  Json json{{"planner", planner}};
  add_inputs(json, inputs);
  json["decisions"] = list_of(asked.decisions);
  json["choices"] = list_of(asked.choices);
  return json_text(json);
}

std::string asked_text(const Asked& asked, Explainer& explainer, ProgressLine& progress) {
  std::string text;
  const auto add = [&](const auto& what, std::size_t found, std::string_view kind) {
    for (const auto& one : what) {
      progress.begin(progress_name(one));
      text += explainer.text(one);
    }
    if (what.size() == found) return;
    text += fmt::format("These are {} of {} {}: --top {} shows all.\n", what.size(), found, kind,
                        found);
  };
  add(asked.decisions, asked.decisions_found, "storages, the largest");
  add(asked.choices, asked.choices_found, "ops that run another way");
  return text.empty() ? "The plan does nothing there: all of it stays.\n" : text;
}

}  // namespace

Answer explain_answer(const PlanningRequest& request) {
  const Plan plan = read_plan(request.files.front());
  const PlanningInputs inputs = read_planned_inputs(request, plan, trace_path_of(request, plan));
  if (plan.structure != structure_hash(inputs.trace)) {
    throw UserError(fmt::format("plan {} was made for another trace: give --trace FILE.",
                                request.files.front()));
  }
  const StorageUses uses(inputs.trace);
  const PlanDecisions of_plan(inputs.trace, plan, uses);
  of_plan.refuse_what_is_not_there(request);
  OtherOutcomes others(inputs, plan, uses);
  Explainer explainer(inputs, of_plan, uses, others);
  const Asked asked(of_plan, request);
  ProgressLine progress(asked.decisions.size() + asked.choices.size(), "explaining");
  if (request.json) return {asked_json(asked, plan.planner, inputs, explainer, progress)};
  return {heading(inputs) + asked_text(asked, explainer, progress)};
}

}  // namespace spillway::tools
