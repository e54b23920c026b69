// SPDX-License-Identifier: Apache-2.0
#include "pass/pass_state.hpp"

#include <algorithm>

namespace spillway::planning::pass {
namespace {

std::vector<double> deadlines_of(const StepModel& model) {
  const std::size_t ops = model.ops();
  std::vector<double> deadlines(2 * ops + 1);
  const auto period = static_cast<double>(model.start[ops]);
  for (std::size_t i = 0; i <= 2 * ops; ++i) {
    deadlines[i] = i <= ops ? static_cast<double>(model.start[i])
                            : period + static_cast<double>(model.start[i - ops]);
  }
  return deadlines;
}

}  // namespace

PassState::PassState(const StepModel& step_model, const SweepSettings& sweep_settings)
    : model(step_model),
      table(step_model.table),
      settings(sweep_settings),
      deadlines(deadlines_of(step_model)),
      room{.capacity = model.budget(Tier::kDevice) -
                       std::min(settings.reserve, model.budget(Tier::kDevice)),
           .used = 0},
      draft(table),
      items(table.storages()),
      uses(table),
      variants(model),
      copies(model),
      schedule(model, deadlines),
      candidates(model, settings.order, settings.by_size),
      recomputation(model, items, uses, variants, room.capacity, settings.transients) {
  began.reserve(table.ops());
}

StorageRule PassState::rule_of(Row storage) const {
  if (table.bytes(storage) <= settings.stay_up_to) return StorageRule::kKeep;
  return settings.rules.rule.empty() ? StorageRule::kAny : settings.rules.rule[storage];
}

bool PassState::may_recompute(Row storage) const {
  const StorageRule rule = rule_of(storage);
  const PassItem& item = items[storage];
  return settings.recompute && (rule == StorageRule::kAny || rule == StorageRule::kRecomputeOnly) &&
         model.recompute_op[storage] != kNoRow && item.next < table.ops() &&
         model.chain_until[storage] >= item.next;
}

GapChoice& PassState::current_choice(Row storage) {
  const Row touch = items[storage].touch;
  GapChoice* choice = touch == kNoRow ? &draft.leading[storage] : &draft.gap[touch];
  while (choice->more != kNoRow) choice = &draft.again[choice->more];
  return *choice;
}

void PassState::offer(Row storage) {
  if (rule_of(storage) == StorageRule::kKeep) return;
  candidates.offer(storage, items[storage], may_recompute(storage));
}

void PassState::set_away(Row storage, bool away) {
  const PassItem& item = items[storage];
  if (item.next == kNoRow) return;
  if (away) {
    schedule.add_away(item.slower_tier(), storage, item.next);
  } else {
    schedule.remove_away(item.slower_tier(), storage, item.next);
  }
}

}  // namespace spillway::planning::pass
