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
      : inputs_(inputs), plan_(plan), trace_(inputs.trace), simulator_(inputs.problem()) {
    collect();
    begin_.push_back(0);
    for (const TimeNs duration : trace_.ops.duration_ns) begin_.push_back(begin_.back() + duration);
    const auto outcome = simulator_.run(plan);
    if (const auto* report = std::get_if<planning::SimulationReport>(&outcome)) {
      step_ns_ = report->step_ns;
      return;
    }
    throw UserError(
        "The plan does not work: " + std::get<planning::SimulationFailure>(outcome).reason + ".");
  }

  /// The largest first.
  [[nodiscard]] std::vector<Decision> decisions(const PlanningRequest& request) const {
    std::vector<Decision> chosen;
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

  std::string text(const Decision& decision) {
    const std::size_t row = to_value(decision.storage);
    std::string lines =
        fmt::format("storage {}: {}, {}, ", row, short_bytes(bytes_of(decision.storage)),
                    to_string(trace_.storages.role[row]));
    lines += printable(origin(decision.storage), kColumns - std::min(kColumns, lines.size()));
    lines += '\n';
    if (decision.place) lines += "  begins " + place_text(*decision.place) + "\n";
    for (const PlanAction& action : decision.actions) lines += action_line(action);
    return lines + why_line(decision) + otherwise_lines(decision);
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
              {"away_ns", longest_absence(decision)}};
    Json others = Json::object();
    for (const auto& [way, outcome] : outcomes(decision)) {
      Json& other = others[std::string(to_string(way))];
      if (const auto* step = std::get_if<TimeNs>(&outcome)) {
        other = Json{{"feasible", true}, {"step_ns", *step}};
      } else {
        other = failure_json(std::get<planning::SimulationFailure>(outcome));
      }
    }
    json["if_kept"] = others["left-alone"];
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
      if (action.kind == PlanActionKind::kChoose) continue;
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
        if (decisions_.contains(storage)) makers_[storage] = OpIndex{op};
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

  /// Time of computing from the first action that takes it away to the next that brings it back.
  [[nodiscard]] TimeNs longest_absence(const Decision& decision) const {
    TimeNs longest = 0;
    std::optional<OpIndex> left;
    for (const PlanAction& action : decision.actions) {
      const bool leaves =
          action.kind == PlanActionKind::kEvict || action.kind == PlanActionKind::kDrop;
      if (leaves && !left) left = action.at;
      if (!left || leaves) continue;
      longest = std::max(longest, begin_[to_value(action.at)] - begin_[to_value(*left)]);
      left.reset();
    }
    if (left) longest = std::max(longest, begin_.back() - begin_[to_value(*left)]);
    return longest;
  }

  [[nodiscard]] std::string why_line(const Decision& decision) const {
    std::string line =
        fmt::format("  why: not needed for {} of computing", short_time(longest_absence(decision)));
    // A machine that trains on its processor copies between memory and disk.
    const bool has_host = inputs_.machine.link(LinkKind::kDeviceToHost).has_value();
    const auto& out =
        inputs_.machine.link(has_host ? LinkKind::kDeviceToHost : LinkKind::kHostToDisk);
    const auto& in =
        inputs_.machine.link(has_host ? LinkKind::kHostToDevice : LinkKind::kDiskToHost);
    if (out && in) {
      line += fmt::format("; copies take {} out and {} in",
                          short_time(copy_time(*out, bytes_of(decision.storage))),
                          short_time(copy_time(*in, bytes_of(decision.storage))));
    }
    return line + "\n";
  }

  /// The step's time with another plan, or why it cannot be carried out.
  using Outcome = std::variant<TimeNs, planning::SimulationFailure>;

  /// Of every other way once, with the fastest of its plans.
  std::vector<std::pair<OtherWay, Outcome>> outcomes(const Decision& decision) {
    std::vector<std::pair<OtherWay, Outcome>> found;
    for (const PlanVariant& variant : plan_variants(inputs_.problem(), plan_, decision)) {
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

  Outcome outcome_of(const Plan& variant) {
    const auto flaw = validate(variant, trace_, inputs_.budgets);
    if (flaw && flaw->flaw < PlanFlaw::kDeviceOverfull) {
      return planning::SimulationFailure{.op = flaw->op, .reason = flaw->text};
    }
    const auto outcome = simulator_.run(variant);
    if (const auto* failure = std::get_if<planning::SimulationFailure>(&outcome)) return *failure;
    return std::get<planning::SimulationReport>(outcome).step_ns;
  }

  std::string otherwise_lines(const Decision& decision) {
    std::string lines;
    for (const auto& [way, outcome] : outcomes(decision)) {
      if (const auto* failure = std::get_if<planning::SimulationFailure>(&outcome)) {
        const std::string short_by =
            failure->need == Bytes{0} ? failure->reason : to_string(failure->short_by()) + " short";
        lines += printable(
                     fmt::format("  {}: {}, at {}", condition(way), short_by, op_text(failure->op)),
                     kColumns) +
                 "\n";
        continue;
      }
      const TimeNs step = std::get<TimeNs>(outcome);
      lines +=
          fmt::format("  {}: the step takes {}, {} {}\n", condition(way), short_time(step),
                      short_time(std::abs(step - step_ns_)), step < step_ns_ ? "less" : "more");
    }
    return lines;
  }

  [[nodiscard]] Bytes bytes_of(StorageId storage) const {
    return trace_.storages.bytes[to_value(storage)];
  }

  const PlanningInputs& inputs_;
  const Plan& plan_;
  const Trace& trace_;
  planning::Simulator simulator_;
  std::map<StorageId, Decision> decisions_;
  std::map<StorageId, OpIndex> makers_;  // of those in decisions_ that are made in the step
  std::vector<TimeNs> begin_;            // of each op without stalls, and the end
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
  ProgressLine progress(decisions.size(), "explaining");
  if (request.json) {
    Json list = Json::array();
    for (const Decision& decision : decisions) {
      progress.begin(fmt::format("storage {}", to_value(decision.storage)));
      list.push_back(explainer.json(decision));
    }
    return {json_text({{"planner", plan.planner}, {"decisions", std::move(list)}})};
  }
  if (found == 0) return {"The plan does nothing there: all of it stays.\n"};
  std::string text;
  for (const Decision& decision : decisions) {
    progress.begin(fmt::format("storage {}", to_value(decision.storage)));
    text += explainer.text(decision);
  }
  if (decisions.size() < found) {
    text += fmt::format("These are {} of {} storages, the largest: --top {} shows all.\n",
                        decisions.size(), found, found);
  }
  return {text};
}

}  // namespace spillway::tools
