// SPDX-License-Identifier: Apache-2.0
// `spillway explain`: the decisions of a plan in words, with what the alternative would have cost.
//
// The decision about a storage is judged by the other ways (plan_variants.hpp): the same plan with
// that one decision changed is simulated, and is longer, shorter or does not fit.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "plan_variants.hpp"
#include "planning_commands.hpp"
#include "planning_inputs.hpp"
#include "progress_line.hpp"
#include "quantity_text.hpp"
#include "simulation_text.hpp"
#include "spillway/base/error.hpp"
#include "spillway/plan/plan_io.hpp"
#include "spillway/plan/validator.hpp"
#include "storage_uses.hpp"

namespace spillway::tools {
namespace {

constexpr std::size_t kColumns = 80;

/// What a line calls it.
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

bool is_storage(const Trace& trace, std::size_t row, const std::string& name) {
  return trace.storages.name[row] == name || std::to_string(row) == name;
}

void refuse_what_is_not_there(const PlanningRequest& request, const Trace& trace) {
  const std::size_t ops = trace.ops.size();
  if (request.op && *request.op > ops) {
    throw UserError(fmt::format("There is no op {}: the step has {}, and {} is its end.",
                                *request.op, ops, ops));
  }
  if (!request.storage) return;
  for (std::size_t row = 0; row < trace.storages.size(); ++row) {
    if (is_storage(trace, row, *request.storage)) return;
  }
  throw UserError(
      fmt::format("The trace has no storage \"{}\". Give its name, or a number below {}.",
                  printable(*request.storage, kColumns), trace.storages.size()));
}

class Explainer {
 public:
  Explainer(const PlanningInputs& inputs, const Plan& plan)
      : inputs_(inputs),
        plan_(plan),
        trace_(inputs.trace),
        uses_(trace_),
        simulator_(inputs.problem()) {
    collect();
    const auto outcome = simulator_.run(plan);
    if (const auto* report = std::get_if<planning::SimulationReport>(&outcome)) {
      step_ns_ = report->step_ns;
      return;
    }
    throw UserError(
        "The plan does not work: " + std::get<planning::SimulationFailure>(outcome).reason + ".");
  }

  /// The largest first. One asked for by name is among them though nothing is done with it.
  [[nodiscard]] std::vector<Decision> decisions(const PlanningRequest& request) const {
    std::vector<Decision> chosen;
    for (std::size_t row = 0; request.storage && !request.op && row < trace_.storages.size();
         ++row) {
      const StorageId storage{row};
      if (decisions_.contains(storage) || !is_named(storage, *request.storage)) continue;
      chosen.push_back({.storage = storage, .actions = {}, .place = {}});
    }
    for (const auto& [storage, decision] : decisions_) {
      if (request.storage && !is_named(storage, *request.storage)) continue;
      const auto at_op = [&](const PlanAction& action) {
        return to_value(action.at) == *request.op;
      };
      if (request.op && std::none_of(decision.actions.begin(), decision.actions.end(), at_op)) {
        continue;
      }
      chosen.push_back(decision);
    }
    std::stable_sort(chosen.begin(), chosen.end(), [&](const Decision& a, const Decision& b) {
      return bytes_of(a.storage) > bytes_of(b.storage);
    });
    return chosen;
  }

  /// Of ops that run another way than recorded; none where one storage was asked for.
  [[nodiscard]] std::vector<PlanAction> choices(const PlanningRequest& request) const {
    std::vector<PlanAction> chosen;
    if (request.storage) return chosen;
    for (const PlanAction& choice : choices_) {
      if (!request.op || to_value(choice.op) == *request.op) chosen.push_back(choice);
    }
    return chosen;
  }

  std::string text(const PlanAction& choice) {
    const OpAlternative& other = alternative_of(choice);
    const std::size_t op = to_value(choice.op);
    return printable(op_text(choice.op), kColumns) +
           fmt::format(
               "\n  choose                   alternative {}: {}, workspace {}\n"
               "                           as recorded:   {}, workspace {}\n",
               choice.alternative, short_time(other.duration_ns), short_bytes(other.alloc_peak),
               short_time(trace_.ops.duration_ns[op]), short_bytes(trace_.ops.alloc_peak[op])) +
           otherwise_line("if it ran as recorded", without(choice));
  }

  Json json(const PlanAction& choice) {
    const OpAlternative& other = alternative_of(choice);
    const std::size_t op = to_value(choice.op);
    return {{"op", op},
            {"name", std::string(trace_.ops.name[op])},
            {"alternative", choice.alternative},
            {"ns", other.duration_ns},
            {"workspace", other.alloc_peak.count},
            {"recorded_ns", trace_.ops.duration_ns[op]},
            {"recorded_workspace", trace_.ops.alloc_peak[op].count},
            {"if_recorded", outcome_json(without(choice))}};
  }

  std::string text(const Decision& decision) {
    const std::size_t row = to_value(decision.storage);
    std::string lines =
        fmt::format("storage {}: {}, {}, ", row, short_bytes(bytes_of(decision.storage)),
                    to_string(trace_.storages.role[row]));
    lines += printable(origin(decision.storage), kColumns - std::min(kColumns, lines.size()));
    lines += '\n';
    if (decision.place) lines += "  begins " + place_text(*decision.place) + "\n";
    for (const PlanAction& action : decision.actions) lines += action_line(action);
    lines += is_kept(decision) ? kept_lines(decision.storage) : why_line(decision);
    return lines + otherwise_lines(outcomes(decision));
  }

  Json json(const Decision& decision) {
    const std::size_t row = to_value(decision.storage);
    Json actions = Json::array();
    for (const PlanAction& action : decision.actions) {
      Json entry{{"at", to_value(action.at)}, {"do", to_string(action.kind)}};
      if (action.kind == PlanActionKind::kEvict) entry["tier"] = to_string(action.tier);
      if (action.kind == PlanActionKind::kReplay) entry["op"] = to_value(action.op);
      actions.push_back(std::move(entry));
    }
    Json json{{"storage", row},
              {"name", std::string(trace_.storages.name[row])},
              {"origin", origin(decision.storage)},
              {"role", to_string(trace_.storages.role[row])},
              {"bytes", bytes_of(decision.storage).count},
              {"actions", std::move(actions)},
              {"unneeded_ns", unneeded(decision)}};
    if (is_kept(decision)) json["kept_because"] = kept_because(decision.storage).first;
    Json others = Json::object();
    for (const auto& [way, outcome] : outcomes(decision)) {
      others[std::string(to_string(way))] = outcome_json(outcome);
    }
    json["if_kept"] = is_kept(decision) ? outcome_json(step_ns_) : others["left-alone"];
    json["otherwise"] = std::move(others);
    return json;
  }

 private:
  void collect() {
    for (const PlanPlace& place : plan_.places) {
      decisions_[place.storage].storage = place.storage;
      decisions_[place.storage].place = place;
    }
    std::map<StorageId, bool> dropped;
    for (const PlanAction& action : plan_.actions) {
      if (action.kind == PlanActionKind::kChoose) {
        choices_.push_back(action);
        continue;
      }
      if (action.kind != PlanActionKind::kReplay) {
        dropped[action.storage] = action.kind == PlanActionKind::kDrop;
        add(action.storage, action);
        continue;
      }
      for (const StorageId storage : trace_.ops.creates[action.op]) {
        if (std::exchange(dropped[storage], false)) add(storage, action);
      }
    }
    for (std::size_t op = 0; op < trace_.ops.size(); ++op) {
      for (const StorageId storage : trace_.ops.creates[OpIndex{op}]) {
        makers_[storage] = OpIndex{op};
      }
    }
  }
  /// What people know it by: its name, else the op that makes it.
  [[nodiscard]] std::string origin(StorageId storage) const {
    const std::size_t row = to_value(storage);
    if (!trace_.storages.name[row].empty()) return std::string(trace_.storages.name[row]);
    const auto maker = makers_.find(storage);
    if (maker == makers_.end()) return "from before the step";
    const std::string_view module = trace_.ops.module[to_value(maker->second)];
    return fmt::format("made by {}{}{}", op_text(maker->second), module.empty() ? "" : " in ",
                       module);
  }

  void add(StorageId storage, const PlanAction& action) {
    decisions_[storage].storage = storage;
    decisions_[storage].actions.push_back(action);
  }

  [[nodiscard]] bool is_named(StorageId storage, const std::string& name) const {
    return is_storage(trace_, to_value(storage), name);
  }

  static std::string place_text(const PlanPlace& place) {
    if (place.tiers == 0) return "nowhere: it is freed unused";
    std::vector<std::string_view> names;
    for (const Tier tier : kTiers) {
      if (place.on(tier)) names.push_back(to_string(tier));
    }
    return fmt::format("on {}", fmt::join(names, " and "));
  }

  [[nodiscard]] std::string op_text(OpIndex op) const {
    if (to_value(op) >= trace_.ops.size()) return "the end of the step";
    return fmt::format("op {}, {}", to_value(op), trace_.ops.name[to_value(op)]);
  }

  [[nodiscard]] std::string action_line(const PlanAction& action) const {
    std::string what(to_string(action.kind));
    if (action.kind == PlanActionKind::kEvict)
      what += fmt::format(" to {}", to_string(action.tier));
    if (action.kind == PlanActionKind::kReplay) {
      what = fmt::format("made again by op {}, {}", to_value(action.op),
                         short_time(trace_.ops.duration_ns[to_value(action.op)]));
    }
    return printable(fmt::format("  {:<24} before {}", what, op_text(action.at)), kColumns) + "\n";
  }

  static bool is_kept(const Decision& decision) {
    return decision.actions.empty() && !decision.place;
  }

  /// The longest stretch without a use in which the plan has it away; of one that is kept, of all.
  [[nodiscard]] TimeNs unneeded(const Decision& decision) const {
    if (is_kept(decision)) {
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

  /// The step's time with another plan, or why it cannot be carried out.
  using Outcome = std::variant<TimeNs, planning::SimulationFailure>;

  /// Of every other way once, with the fastest of its plans.
  std::vector<std::pair<OtherWay, Outcome>> outcomes(const Decision& decision) {
    std::vector<std::pair<OtherWay, Outcome>> found;
    for (const PlanVariant& variant : variants_of(decision)) {
      Outcome outcome = outcome_of(variant.plan);
      if (found.empty() || found.back().first != variant.way) {
        found.emplace_back(variant.way, std::move(outcome));
        continue;
      }
      const auto* step = std::get_if<TimeNs>(&outcome);
      const auto* before = std::get_if<TimeNs>(&found.back().second);
      if (step != nullptr && (before == nullptr || *step < *before)) found.back().second = *step;
    }
    return found;
  }

  [[nodiscard]] std::vector<PlanVariant> variants_of(const Decision& decision) const {
    if (!is_kept(decision)) return plan_variants(inputs_.problem(), plan_, decision);
    const auto stretch = uses_.longest(decision.storage);
    if (!stretch) return {};
    return ways_to_leave(inputs_.problem(), plan_, decision.storage, *stretch);
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

  Outcome without(const PlanAction& choice) {
    Plan variant = plan_;
    std::erase(variant.actions, choice);
    return outcome_of(variant);
  }

  Outcome outcome_of(const Plan& variant) {
    const auto flaw = validate(variant, trace_, inputs_.budgets);
    if (flaw && flaw->flaw < PlanFlaw::kDeviceOverfull) {
      return planning::SimulationFailure{.op = flaw->op, .reason = flaw->text};
    }
    const auto outcome = simulator_.run(variant);
    if (const auto* failure = std::get_if<planning::SimulationFailure>(&outcome)) return *failure;
    return std::get<planning::SimulationReport>(outcome).step_ns;
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
      return printable(fmt::format("  {}: {}, at {}", condition, short_by, op_text(failure->op)),
                       kColumns) +
             "\n";
    }
    const TimeNs step = std::get<TimeNs>(outcome);
    return fmt::format("  {}: the step takes {}, {} {}\n", condition, short_time(step),
                       short_time(std::abs(step - step_ns_)), step < step_ns_ ? "less" : "more");
  }

  [[nodiscard]] Bytes bytes_of(StorageId storage) const {
    return trace_.storages.bytes[to_value(storage)];
  }

  const PlanningInputs& inputs_;
  const Plan& plan_;
  const Trace& trace_;
  StorageUses uses_;
  planning::Simulator simulator_;
  std::map<StorageId, Decision> decisions_;
  std::vector<PlanAction> choices_;
  std::map<StorageId, OpIndex> makers_;  // of those made in the step
  TimeNs step_ns_ = 0;
};

}  // namespace

Answer explain_answer(const PlanningRequest& request) {
  const Plan plan = read_plan(request.files.front());
  PlanningRequest as_planned = request;
  if (!request.machine && !plan.machine.empty()) as_planned.machine = plan.machine;
  PlanningInputs inputs = read_inputs(as_planned, trace_path_of(request, plan));
  inputs.budgets = plan.budgets;
  if (plan.structure != structure_hash(inputs.trace)) {
    throw UserError(fmt::format("plan {} was made for another trace: give --trace FILE.",
                                request.files.front()));
  }
  refuse_what_is_not_there(request, inputs.trace);
  Explainer explainer(inputs, plan);
  auto decisions = explainer.decisions(request);
  const std::size_t found = decisions.size();
  decisions.resize(std::min(found, request.top));
  auto choices = explainer.choices(request);
  const std::size_t choices_found = choices.size();
  choices.resize(std::min(choices_found, request.top));
  ProgressLine progress(decisions.size() + choices.size(), "explaining");
  const auto begin = [&](const PlanAction& choice) {
    progress.begin(fmt::format("op {}", to_value(choice.op)));
  };
  const auto begin_storage = [&](const Decision& decision) {
    progress.begin(fmt::format("storage {}", to_value(decision.storage)));
  };
  if (request.json) {
    Json list = Json::array();
    for (const Decision& decision : decisions) {
      begin_storage(decision);
      list.push_back(explainer.json(decision));
    }
    Json others = Json::array();
    for (const PlanAction& choice : choices) {
      begin(choice);
      others.push_back(explainer.json(choice));
    }
    return {json_text({{"planner", plan.planner},
                       {"decisions", std::move(list)},
                       {"choices", std::move(others)}})};
  }
  if (found + choices_found == 0) return {"The plan does nothing there: all of it stays.\n"};
  std::string text;
  for (const Decision& decision : decisions) {
    begin_storage(decision);
    text += explainer.text(decision);
  }
  if (decisions.size() < found) {
    text += fmt::format("These are {} of {} storages, the largest: --top {} shows all.\n",
                        decisions.size(), found, found);
  }
  for (const PlanAction& choice : choices) {
    begin(choice);
    text += explainer.text(choice);
  }
  if (choices.size() < choices_found) {
    text += fmt::format("These are {} of {} ops that run another way: --top {} shows all.\n",
                        choices.size(), choices_found, choices_found);
  }
  return {text};
}

}  // namespace spillway::tools
