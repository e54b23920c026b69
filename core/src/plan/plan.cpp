// SPDX-License-Identifier: Apache-2.0
#include "spillway/plan/plan.hpp"

#include <algorithm>
#include <array>

namespace spillway {
namespace {

constexpr std::array<std::string_view, kPlanActionKindCount> kKindNames{
    "evict", "demote", "fetch", "forget", "drop", "recompute", "wait", "choose"};
static_assert(static_cast<std::size_t>(PlanActionKind::kChoose) + 1 == kPlanActionKindCount);

constexpr std::array<std::string_view, 2> kDurationNames{"recorded", "estimated"};

}  // namespace

std::string_view to_string(PlanActionKind kind) {
  return kKindNames.at(static_cast<std::size_t>(kind));
}

std::optional<PlanActionKind> parse_plan_action_kind(std::string_view text) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), text);
  if (found == kKindNames.end()) return std::nullopt;
  return static_cast<PlanActionKind>(found - kKindNames.begin());
}

std::string_view to_string(Durations durations) {
  return kDurationNames.at(static_cast<std::size_t>(durations));
}

std::optional<Durations> parse_durations(std::string_view text) {
  const auto found = std::find(kDurationNames.begin(), kDurationNames.end(), text);
  if (found == kDurationNames.end()) return std::nullopt;
  return static_cast<Durations>(found - kDurationNames.begin());
}

PlanAction PlanAction::evict(OpIndex at, StorageId storage, Tier tier) {
  return {.at = at, .kind = PlanActionKind::kEvict, .tier = tier, .storage = storage};
}
PlanAction PlanAction::demote(OpIndex at, StorageId storage) {
  return {.at = at, .kind = PlanActionKind::kDemote, .storage = storage};
}
PlanAction PlanAction::fetch(OpIndex at, StorageId storage) {
  return {.at = at, .kind = PlanActionKind::kFetch, .storage = storage};
}
PlanAction PlanAction::forget(OpIndex at, StorageId storage) {
  return {.at = at, .kind = PlanActionKind::kForget, .storage = storage};
}
PlanAction PlanAction::drop(OpIndex at, StorageId storage) {
  return {.at = at, .kind = PlanActionKind::kDrop, .storage = storage};
}
PlanAction PlanAction::recompute(OpIndex at, OpIndex op) {
  return {.at = at, .kind = PlanActionKind::kRecompute, .op = op};
}
PlanAction PlanAction::wait(OpIndex at, StorageId storage) {
  return {.at = at, .kind = PlanActionKind::kWait, .storage = storage};
}
PlanAction PlanAction::choose(OpIndex op, std::uint32_t alternative) {
  return {.at = OpIndex{0}, .kind = PlanActionKind::kChoose, .alternative = alternative, .op = op};
}

void sort(Plan& plan) {
  std::stable_sort(plan.actions.begin(), plan.actions.end(),
                   [](const PlanAction& a, const PlanAction& b) { return a.at < b.at; });
  std::sort(plan.places.begin(), plan.places.end(),
            [](const PlanPlace& a, const PlanPlace& b) { return a.storage < b.storage; });
}

}  // namespace spillway
