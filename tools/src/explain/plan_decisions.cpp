// SPDX-License-Identifier: Apache-2.0
#include "explain/plan_decisions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "spillway/base/error.hpp"
#include "text/output_text.hpp"

namespace spillway::tools {

std::string op_text(const Trace& trace, OpIndex op) {
  if (to_value(op) >= trace.ops.size()) return "the end of the step";
  return fmt::format("op {}, {}", to_value(op), trace.ops.name[to_value(op)]);
}

PlanDecisions::PlanDecisions(const Trace& trace, const Plan& plan, const StorageUses& uses)
    : trace_(trace), uses_(uses) {
  collect(plan);
}

void PlanDecisions::refuse_what_is_not_there(const PlanningRequest& request) const {
  const std::size_t ops = trace_.ops.size();
  if (request.op && *request.op > ops) {
    throw UserError(fmt::format("There is no op {}: the step has {}, and {} is its end.",
                                *request.op, ops, ops));
  }
  if (!request.storage) return;
  for (std::size_t row = 0; row < trace_.storages.size(); ++row) {
    if (is_named(StorageId{row}, *request.storage)) return;
  }
  throw UserError(
      fmt::format("The trace has no storage \"{}\". Give its name, or a number below {}.",
                  printable(*request.storage, kColumns), trace_.storages.size()));
}

std::vector<Decision> PlanDecisions::about_storages(const PlanningRequest& request) const {
  std::vector<Decision> chosen;
  for (std::size_t row = 0; request.storage && !request.op && row < trace_.storages.size(); ++row) {
    const StorageId storage{row};
    if (decisions_.contains(storage) || !is_named(storage, *request.storage)) continue;
    chosen.push_back({.storage = storage, .actions = {}, .place = {}});
  }
  for (const auto& [storage, decision] : decisions_) {
    if (request.storage && !is_named(storage, *request.storage)) continue;
    const auto at_op = [&](const PlanAction& action) { return to_value(action.at) == *request.op; };
    if (request.op && std::none_of(decision.actions.begin(), decision.actions.end(), at_op)) {
      continue;
    }
    chosen.push_back(decision);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [&](const Decision& a, const Decision& b) {
    const auto& bytes = trace_.storages.bytes;
    return bytes[to_value(a.storage)] > bytes[to_value(b.storage)];
  });
  return chosen;
}

std::vector<PlanAction> PlanDecisions::choices(const PlanningRequest& request) const {
  std::vector<PlanAction> chosen;
  if (request.storage) return chosen;
  for (const PlanAction& choice : choices_) {
    if (!request.op || to_value(choice.op) == *request.op) chosen.push_back(choice);
  }
  return chosen;
}

void PlanDecisions::collect(const Plan& plan) {
  for (const PlanPlace& place : plan.places) {
    decisions_[place.storage].storage = place.storage;
    decisions_[place.storage].place = place;
  }
  std::map<StorageId, bool> dropped;
  for (const PlanAction& action : plan.actions) {
    if (action.kind == PlanActionKind::kChoose) {
      choices_.push_back(action);
      continue;
    }
    if (action.kind != PlanActionKind::kRecompute) {
      dropped[action.storage] = action.kind == PlanActionKind::kDrop;
      add(action.storage, action);
      continue;
    }
    for (const StorageId storage : trace_.ops.creates[action.op]) {
      if (std::exchange(dropped[storage], false)) add(storage, action);
    }
  }
}

std::string PlanDecisions::origin(StorageId storage) const {
  const std::size_t row = to_value(storage);
  if (!trace_.storages.name[row].empty()) return std::string(trace_.storages.name[row]);
  const auto maker = uses_.maker(storage);
  if (!maker) return "from before the step";
  const std::string_view module = trace_.ops.module[to_value(*maker)];
  return fmt::format("made by {}{}{}", op_text(trace_, *maker), module.empty() ? "" : " in ",
                     module);
}

void PlanDecisions::add(StorageId storage, const PlanAction& action) {
  decisions_[storage].storage = storage;
  decisions_[storage].actions.push_back(action);
}

bool PlanDecisions::is_named(StorageId storage, const std::string& name) const {
  return trace_.storages.name[to_value(storage)] == name ||
         std::to_string(to_value(storage)) == name;
}

}  // namespace spillway::tools
