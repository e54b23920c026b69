// SPDX-License-Identifier: Apache-2.0
#include "pass/sweep.hpp"

#include <algorithm>
#include <utility>

#include "pass/step_pass.hpp"

namespace spillway::planning {

SweepResult sweep_from(const StepModel& model, const SweepSettings& settings,
                       const BeginState& begin) {
  SweepResult result;
  pass::StepPass pass(model, settings, begin);
  for (Row op = 0; op < model.ops(); ++op) {
    if (pass.step(op)) continue;
    result.binding_op = op;
    result.short_by = pass.short_by();
    result.to_blame = pass.to_blame();
    return result;
  }
  if (!pass.finish(result)) {
    result.binding_op = model.ops() - 1;
    result.short_by = pass.short_by();
  }
  return result;
}

namespace {

// A copy of little takes a link's latency and makes no room to speak of: the smallest storages
// that live on stay, up to this share of the room beside what the most demanding op needs.
constexpr std::uint64_t kRoomOverSmall = 4;

std::vector<std::uint8_t> small_ones(const StepModel& model) {
  const AccessTable& table = model.table;
  std::uint64_t most = 0;
  for (Row op = 0; op < table.ops(); ++op) most = std::max(most, table.working_set(op));
  const std::uint64_t budget = model.budget(Tier::kDevice);
  std::uint64_t left = budget > most ? (budget - most) / kRoomOverSmall : 0;
  std::vector<std::pair<std::uint64_t, Row>> by_size;
  for (Row s = 0; s < table.storages(); ++s) {
    if (table.predecessor(s) != kNoRow) by_size.emplace_back(table.bytes(s), s);
  }
  std::sort(by_size.begin(), by_size.end());
  std::vector<std::uint8_t> small(table.storages(), 0);
  for (const auto& [bytes, s] : by_size) {
    if (bytes > left) break;
    left -= bytes;
    small[s] = 1;
  }
  return small;
}

// Before the first pass: what is used first is on the device, as far as half of it goes, and what
// is small; what is never used is not.
BeginState first_guess(const StepModel& model, std::uint64_t stay_up_to) {
  const AccessTable& table = model.table;
  BeginState begin;
  begin.away.assign(table.storages(), 0);
  begin.copied.assign(table.storages(), 0);
  const std::uint64_t most = table.alive(table.op_with_most_alive());
  if (most <= model.budget(Tier::kDevice)) return begin;
  std::vector<std::pair<Row, Row>> order;
  std::uint64_t there = 0;
  for (Row s = 0; s < table.storages(); ++s) {
    if (table.predecessor(s) == kNoRow) {
      if (table.creator(s) == kNoRow) there += table.bytes(s);
      continue;
    }
    if (table.only_freed(s)) {
      begin.away[s] = kBeginsNowhere;
      continue;
    }
    const Row first = table.first_touch(s);
    order.emplace_back(first == kNoRow ? kNoRow : table.op_of(first), s);
  }
  std::sort(order.begin(), order.end());
  std::uint64_t host_left = model.has_host() ? model.budget(Tier::kHost) : 0;
  std::uint64_t disk_left = model.has_disk() ? model.budget(Tier::kDisk) : 0;
  const std::vector<std::uint8_t> small = small_ones(model);
  for (const auto& [op, s] : order) {
    const bool stays = small[s] != 0 || table.bytes(s) <= stay_up_to ||
                       (op != kNoRow && there + table.bytes(s) <= model.budget(Tier::kDevice) / 2);
    if (!stays && table.bytes(s) <= host_left) {
      host_left -= table.bytes(s);
      begin.away[s] = 1;
    } else if (!stays && table.bytes(s) <= disk_left) {
      disk_left -= table.bytes(s);
      begin.away[s] = 2;
    } else {
      there += table.bytes(s);
    }
  }
  return begin;
}

// Where recomputations did not fit after all, the storages they were for are copied instead.
SweepResult retried(const StepModel& model, SweepSettings& settings, const BeginState& begin) {
  for (int passes = 1;; ++passes) {
    SweepResult result = sweep_from(model, settings, begin);
    if (result.feasible || result.to_blame.empty() || passes == kMostPassesInVain) return result;
    settings.rules.rule.resize(model.table.storages(), StorageRule::kAny);
    for (const Row storage : result.to_blame) {
      settings.rules.rule[storage] = StorageRule::kSwapOnly;
    }
  }
}

}  // namespace

bool is_scarce(const StepModel& model) {
  const std::uint64_t most = model.table.alive(model.table.op_with_most_alive());
  const std::uint64_t host = model.has_host() ? model.budget(Tier::kHost) : 0;
  const std::uint64_t room = host > 0 ? host : model.budget(Tier::kDisk);
  return room > 0 && room < most;
}

namespace {

// Where a step's two ends disagree on where a storage is, it is away in both. That needs no more of
// the device, but of a scarce tier it may: there a step is passed through until they agree.
constexpr int kMostRoundsWhereScarce = 5;

}  // namespace

SweepResult sweep(const StepModel& model, const SweepSettings& settings) {
  SweepSettings now = settings;
  BeginState begin = first_guess(model, now.stay_up_to);
  SweepResult result = retried(model, now, begin);
  const int most = is_scarce(model) ? kMostRoundsWhereScarce : 2;
  for (int round = 1; round < most && result.feasible && result.end != begin; ++round) {
    begin = result.end;
    SweepResult next = retried(model, now, begin);
    if (!next.feasible) break;
    result = std::move(next);
  }
  return result;
}

}  // namespace spillway::planning
