// SPDX-License-Identifier: Apache-2.0
#include "plan_form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr std::array<std::string_view, kPlanFlawCount> kFlawNames{"other-trace",
                                                                  "action-out-of-order",
                                                                  "place-out-of-order",
                                                                  "unknown-op",
                                                                  "unknown-storage",
                                                                  "placed-nowhere",
                                                                  "placed-unborn",
                                                                  "not-alive",
                                                                  "no-such-tier",
                                                                  "not-on-device",
                                                                  "not-on-host",
                                                                  "already-on-device",
                                                                  "evicted-for-nothing",
                                                                  "lost",
                                                                  "dropped-twice",
                                                                  "not-recomputable",
                                                                  "recomputed-too-early",
                                                                  "recompute-input-gone",
                                                                  "recompute-input-changed",
                                                                  "recompute-of-old-value",
                                                                  "recompute-for-nothing",
                                                                  "no-such-alternative",
                                                                  "chosen-late",
                                                                  "chosen-twice",
                                                                  "device-overfull",
                                                                  "host-overfull",
                                                                  "disk-overfull",
                                                                  "waits-for-ever",
                                                                  "does-not-return"};
static_assert(static_cast<std::size_t>(PlanFlaw::kDoesNotReturn) + 1 == kPlanFlawCount);

using Problem = std::optional<PlanProblem>;

PlanProblem flawed(PlanFlaw flaw, OpIndex op, const std::string& text) {
  return {flaw, op, fmt::format("at op {}: {}", to_value(op), text)};
}

Problem check_known(StorageId storage, const Trace& trace, OpIndex op, const std::string& who) {
  if (to_value(storage) < trace.storages.size()) return std::nullopt;
  return flawed(
      PlanFlaw::kUnknownStorage, op,
      fmt::format("{} names a storage beyond the trace's {}", who, trace.storages.size()));
}

Problem check_choice(const PlanAction& action, const Trace& trace, std::set<OpIndex>& chosen) {
  if (action.at != OpIndex{0}) {
    return flawed(PlanFlaw::kChosenLate, action.at,
                  "an alternative is chosen elsewhere than at op 0");
  }
  if (action.alternative >= trace.ops.alternatives[action.op].size()) {
    return flawed(
        PlanFlaw::kNoSuchAlternative, action.at,
        fmt::format("op {} has no alternative {}", to_value(action.op), action.alternative));
  }
  if (chosen.insert(action.op).second) return std::nullopt;
  return flawed(PlanFlaw::kChosenTwice, action.at,
                fmt::format("two alternatives are chosen for op {}", to_value(action.op)));
}

Problem check_actions(const Plan& plan, const Trace& trace) {
  const std::size_t ops = trace.ops.size();
  std::set<OpIndex> chosen;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const PlanAction& action = plan.actions[i];
    if (i > 0 && action.at < plan.actions[i - 1].at) {
      return flawed(PlanFlaw::kActionOutOfOrder, action.at,
                    fmt::format("action {} stands behind a later one", i));
    }
    const bool chooses = action.kind == PlanActionKind::kChoose;
    const bool names_op = chooses || action.kind == PlanActionKind::kRecompute;
    if (to_value(action.at) > ops || (names_op && to_value(action.op) >= ops)) {
      return flawed(PlanFlaw::kUnknownOp, action.at,
                    fmt::format("action {} names an op beyond the trace's {}", i, ops));
    }
    Problem problem;
    if (!names_op) {
      problem = check_known(action.storage, trace, action.at, fmt::format("action {}", i));
    }
    if (chooses) problem = check_choice(action, trace, chosen);
    if (problem) return problem;
  }
  return std::nullopt;
}

// By storage: whether the step frees it and no op touches it. What is freed before any op touches
// it may lie nowhere from the step before on.
std::vector<bool> only_freed(const Trace& trace) {
  std::vector<bool> found(trace.storages.size());
  const TraceOps& ops = trace.ops;
  const auto mark = [&found](const StorageLists& lists, bool as) {
    for (const StorageId storage : lists.items) found[to_value(storage)] = as;
  };
  mark(ops.frees, true);
  for (const StorageLists* touches : {&ops.creates, &ops.reads, &ops.writes}) mark(*touches, false);
  return found;
}

Problem check_places(const Plan& plan, const Trace& trace) {
  constexpr OpIndex kBeginning{0};
  std::vector<bool> may_be_nowhere;  // worked out for the first place that asks
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    const PlanPlace& place = plan.places[i];
    const std::string who = fmt::format("place {}", i);
    if (Problem problem = check_known(place.storage, trace, kBeginning, who)) return problem;
    if (i > 0 && place.storage <= plan.places[i - 1].storage) {
      return flawed(PlanFlaw::kPlaceOutOfOrder, kBeginning, who + " stands behind a later one");
    }
    if (place.tiers != 0) continue;
    if (may_be_nowhere.empty()) may_be_nowhere = only_freed(trace);
    if (!may_be_nowhere[to_value(place.storage)]) {
      return flawed(PlanFlaw::kPlacedNowhere, kBeginning, who + " is on no tier");
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(PlanFlaw flaw) { return kFlawNames.at(static_cast<std::size_t>(flaw)); }

std::optional<PlanProblem> check_form(const Plan& plan, const Trace& trace) {
  if (plan.structure != structure_hash(trace)) {
    return flawed(PlanFlaw::kOtherTrace, OpIndex{0}, "the plan was made for another trace");
  }
  if (!plan.signatures.empty() && plan.signatures.size() != trace.ops.size()) {
    return flawed(PlanFlaw::kOtherTrace, OpIndex{0},
                  fmt::format("the plan has the signatures of {} ops, but the trace has {}",
                              plan.signatures.size(), trace.ops.size()));
  }
  if (Problem problem = check_actions(plan, trace)) return problem;
  return check_places(plan, trace);
}

}  // namespace spillway
