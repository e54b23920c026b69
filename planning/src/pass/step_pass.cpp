// SPDX-License-Identifier: Apache-2.0
#include "pass/step_pass.hpp"

#include <algorithm>
#include <optional>

#include "pass/step_end.hpp"

namespace spillway::planning::pass {

StepPass::StepPass(const StepModel& model, const SweepSettings& settings, const BeginState& begin)
    : state_(model, settings), room_maker_(state_), begin_(begin) {
  const std::vector<Row>& segment = settings.rules.segment;
  for (Row s = 0; s < segment.size(); ++s) {
    if (segment[s] != kNoRow) segments_.emplace_back(segment[s], s);
  }
  std::sort(segments_.begin(), segments_.end());
  for (Row s = 0; s < state_.table.storages(); ++s) begin_storage(s, begin);
}

void StepPass::begin_storage(Row storage, const BeginState& begin) {
  const AccessTable& table = state_.table;
  if (table.creator(storage) != kNoRow) return;
  PassItem& item = state_.items[storage];
  const std::uint64_t bytes = table.bytes(storage);
  item.next = state_.next_after(storage, kNoRow);
  const std::uint8_t away = begin.away[storage];
  const std::uint8_t copied = away == 0 && !begin.copied.empty() ? begin.copied[storage] : away;
  if (copied == 1 || copied == 2) {
    state_.copies.add(item, storage, copied == 1 ? Tier::kHost : Tier::kDisk, 0);
  }
  if (away == 0) {
    item.where = Where::kIn;
    state_.room.used += bytes;
    if (table.predecessor(storage) == kNoRow) inputs_ += bytes;
    state_.offer(storage);
    return;
  }
  if (away == kBeginsNowhere) {
    item.where = Where::kDropped;
    return;
  }
  item.where = away == 1 ? Where::kHost : Where::kDisk;
  state_.set_away(storage, true);
}

bool StepPass::step(Row op) {
  const AccessTable& table = state_.table;
  for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
    state_.items[table.touch(row).storage].pinned = op;
  }
  if (state_.settings.choose_workspace) choose_workspace(op);
  if (!bring_in(op)) return false;
  if (state_.settings.prefetch) prefetch(op);
  to_blame_.clear();
  start_op(op);
  touch_all(op);
  end_op(op);
  leave_eagerly(op);
  return true;
}

// The fastest alternative that needs nothing to leave; the smallest where all would.
void StepPass::choose_workspace(Row op) {
  if (!state_.variants.has_alternatives(op)) return;
  const AccessTable& table = state_.table;
  std::uint64_t coming = state_.model.created[op];
  for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
    const Touch& touch = table.touch(row);
    if (state_.items[touch.storage].where != Where::kIn && !touch.creates) {
      coming += table.bytes(touch.storage);
    }
  }
  const DeviceRoom& room = state_.room;
  const std::uint64_t free = room.has(coming) ? room.capacity - room.used - coming : 0;
  if (const std::optional<std::uint32_t> chosen = state_.variants.choose(op, free)) {
    state_.draft.alternatives.emplace_back(op, *chosen);
  }
}

bool StepPass::bring_in(Row op) {
  const AccessTable& table = state_.table;
  const Row first = table.first_touch_of_op(op);
  const Row last = table.last_touch_of_op(op);
  std::vector<Row> dropped = state_.recomputation.dropped_of(op, kNoRow);
  if (!dropped.empty()) {
    add_segments(op, dropped);
    if (!recompute(op, dropped)) return false;
  }
  std::uint64_t need = state_.own_need(op);
  for (Row row = first; row < last; ++row) {
    const Row storage = table.touch(row).storage;
    if (state_.items[storage].is_away()) need += table.bytes(storage);
  }
  if (!room_maker_.make_room(op, need, op)) return false;
  for (Row row = first; row < last; ++row) {
    const Row storage = table.touch(row).storage;
    if (state_.items[storage].is_away()) fetch(op, storage);
  }
  return true;
}

// The rest of the segments comes back with what is needed of them, where all of it fits.
void StepPass::add_segments(Row op, std::vector<Row>& roots) const {
  const std::vector<Row>& segment = state_.settings.rules.segment;
  if (segment.empty()) return;
  std::vector<Row> more = roots;
  for (const Row root : roots) {
    if (segment[root] == kNoRow) continue;
    auto member =
        std::lower_bound(segments_.begin(), segments_.end(), std::pair{segment[root], Row{0}});
    for (; member != segments_.end() && member->first == segment[root]; ++member) {
      const Row other = member->second;
      const PassItem& item = state_.items[other];
      if (item.where != Where::kDropped || item.next >= state_.table.ops()) continue;
      if (std::find(more.begin(), more.end(), other) == more.end()) more.push_back(other);
    }
  }
  const RecomputeSet set = state_.recomputation.set_for(more, op, kNoRow);
  if (set.possible && state_.recomputation.fits(set, op, kNoRow)) roots = std::move(more);
}

bool StepPass::recompute(Row op, const std::vector<Row>& roots) {
  const AccessTable& table = state_.table;
  const Recomputation& recomputation = state_.recomputation;
  RecomputeSet set = recomputation.set_for(roots, op, kNoRow);
  to_blame_ = roots;
  if (!set.possible) return false;
  const SweepRules& rules = state_.settings.rules;
  const bool for_each_use =
      rules.drop_in_passing &&
      std::any_of(roots.begin(), roots.end(), [&](Row s) { return rules.drop_after_use[s] != 0; });
  if (for_each_use || !recomputation.fits(set, op, kNoRow)) {
    recomputation.drop_between(set, op, kNoRow);
  }
  for (const Row again : set.ops) {
    for (Row row = table.first_touch_of_op(again); row < table.last_touch_of_op(again); ++row) {
      if (table.touch(row).creates) to_blame_.push_back(table.touch(row).storage);
    }
  }
  if (!bring_in_leaves(op, set)) return false;
  for (const Row again : set.ops) run_again(op, again, set);
  drop_again(op, set);
  for (const Row leaf : set.leaves) release_leaf(op, leaf);
  return true;
}

bool StepPass::bring_in_leaves(Row op, const RecomputeSet& set) {
  const std::uint64_t most = state_.recomputation.bytes_of(set, kNoRow).most;
  std::uint64_t need = most;
  for (const Row leaf : set.leaves) {
    PassItem& item = state_.items[leaf];
    item.pinned = op;
    item.free_from = op + 1;
    if (item.is_away()) need += state_.table.bytes(leaf);
  }
  if (!room_maker_.make_room(op, need, op)) return false;
  for (const Row leaf : set.leaves) {
    PassItem& item = state_.items[leaf];
    if (item.is_away()) fetch(op, leaf);
    item.unused = false;
    state_.now = std::max(state_.now, item.arrival);
    item.ready = state_.now;
  }
  // To make room, more of what these ops make may have been dropped: it comes back and stays.
  const std::uint64_t holds = state_.recomputation.bytes_of(set, kNoRow).most;
  state_.now = state_.schedule.wait_for_room(state_.now, holds, state_.room);
  return true;
}

void StepPass::run_again(Row op, Row again, const RecomputeSet& set) {
  const AccessTable& table = state_.table;
  state_.now += static_cast<double>(state_.variants.duration(again));
  state_.draft.recomputations.push_back({op, again});
  for (Row row = table.first_touch_of_op(again); row < table.last_touch_of_op(again); ++row) {
    const Row made = table.touch(row).storage;
    PassItem& item = state_.items[made];
    if (!table.touch(row).creates || item.where != Where::kDropped) continue;
    if (std::binary_search(set.again.begin(), set.again.end(), made)) continue;
    state_.room.used += table.bytes(made);
    item.where = Where::kIn;
    item.pinned = op;
    item.free_from = op + 1;
    item.ready = state_.now;
    item.next = state_.next_after(made, op);
    state_.offer(made);
  }
}

// A storage dropped again has its inputs pledged for its own next use.
void StepPass::drop_again(Row op, const RecomputeSet& set) {
  const Recomputation& recomputation = state_.recomputation;
  for (const Row storage : set.again) {
    state_.draft.redrops.push_back({{op, recomputation.last_reader(set, storage)}, storage});
    PassItem& item = state_.items[storage];
    item.next = state_.next_after(storage, op);
    const std::vector<Row> dropped = recomputation.dropped_of(item.next, kNoRow);
    const RecomputeSet later = recomputation.set_for(dropped, item.next, kNoRow);
    for (const Row leaf : later.leaves) room_maker_.pledge(leaf, item.next);
  }
}

// An input of a recomputation is free for its next use; where the op itself does not need it, at
// once.
void StepPass::release_leaf(Row op, Row leaf) {
  const AccessTable& table = state_.table;
  PassItem& item = state_.items[leaf];
  for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
    if (table.touch(row).storage == leaf) return;
  }
  item.pinned = kNoRow;
  item.free_from = op;
  item.read_again = op;
  item.next = state_.next_after(leaf, op);
  state_.offer(leaf);
}

void StepPass::prefetch(Row op) {
  prefetch_from(Tier::kHost, op);
  prefetch_from(Tier::kDisk, op);
}

void StepPass::prefetch_from(Tier tier, Row op) {
  const CopySchedule& schedule = state_.schedule;
  // After this op is the next chance to queue a copy.
  const double chance = state_.now + static_cast<double>(state_.variants.duration(op));
  while (!schedule.is_empty(tier)) {
    const auto [position, storage] = schedule.first_needed(tier);
    const std::uint64_t bytes = state_.table.bytes(storage);
    const double ahead = state_.settings.lead * schedule.in_ns(tier, bytes);
    // While the link is busy anyway, queueing more would only take room.
    const bool urgent = schedule.in_free(tier) <= chance + ahead &&
                        chance + ahead >= schedule.latest_start(tier) + state_.lag(op);
    if (!urgent) return;
    if (!room_maker_.make_room(op, state_.own_need(op) + bytes, position)) return;
    fetch(op, storage);
  }
}

// A storage that left only when the recomputations before this same op had run does not leave.
bool StepPass::stay_after_all(Row op, Row storage) {
  GapChoice& choice = state_.current_choice(storage);
  if (!choice.after_recomputations || choice.out_at != op) return false;
  state_.set_away(storage, false);
  choice = GapChoice{};
  PassItem& item = state_.items[storage];
  if (item.copied_now) state_.remove_copies(storage, op);
  item.where = Where::kIn;
  state_.room.used += state_.table.bytes(storage);
  state_.offer(storage);
  return true;
}

void StepPass::fetch(Row op, Row storage) {
  if (stay_after_all(op, storage)) return;
  PassItem& item = state_.items[storage];
  const std::uint64_t bytes = state_.table.bytes(storage);
  const Tier from = item.slower_tier();
  state_.set_away(storage, false);
  state_.current_choice(storage).in_at = op;
  item.where = Where::kIn;
  state_.room.used += bytes;
  item.arrival = state_.schedule.take_in(from, state_.now, bytes, state_.room);
  item.ready = item.arrival;
  item.unused = true;
  state_.offer(storage);
}

void StepPass::start_op(Row op) {
  const AccessTable& table = state_.table;
  double start = state_.schedule.wait_for_room(state_.now, state_.own_need(op), state_.room);
  for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
    start = std::max(start, state_.items[table.touch(row).storage].arrival);
  }
  state_.began.push_back(start);
  state_.now = start + static_cast<double>(state_.variants.duration(op));
}

void StepPass::touch_all(Row op) {
  const AccessTable& table = state_.table;
  for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
    const Touch& touch = table.touch(row);
    PassItem& item = state_.items[touch.storage];
    if (touch.creates) {
      item.where = Where::kIn;
      state_.room.used += table.bytes(touch.storage);
    }
    if (touch.writes) state_.remove_copies(touch.storage, op);
    item.touch = row;
    item.free_from = op + 1;
    item.ready = state_.now;
    item.unused = false;
    item.next = state_.next_after(touch.storage, op);
    state_.offer(touch.storage);
  }
}

void StepPass::end_op(Row op) {
  for (const Row storage : state_.table.frees(op)) {
    PassItem& item = state_.items[storage];
    if (item.where == Where::kIn) state_.room.used -= state_.table.bytes(storage);
    if (item.is_away()) state_.set_away(storage, false);
    state_.remove_copies(storage, op);
    item.where = Where::kDead;
    state_.uses.remove(storage);
  }
}

// A storage with a rule to leave, or dropped after each use, goes as soon as its gap begins.
void StepPass::leave_eagerly(Row op) {
  const AccessTable& table = state_.table;
  const SweepRules& rules = state_.settings.rules;
  if (rules.leave_before.empty()) return;
  for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
    const Row storage = table.touch(row).storage;
    const PassItem& item = state_.items[storage];
    if (item.where != Where::kIn || item.next == kNoRow || item.next <= op + 1) continue;
    const Row before = rules.leave_before[storage];
    const bool again = !rules.drop_after_use.empty() && rules.drop_after_use[storage] != 0;
    const bool far = before != kNoRow && op < before && item.next >= before;
    if (!far && !(again && op >= before)) continue;
    if (state_.may_recompute(storage)) {
      double cost = 0;
      const RecomputeSet set = state_.recomputation.if_dropped(storage, cost);
      if (set.possible) room_maker_.drop(op + 1, storage, set);
    } else if (state_.rule_of(storage) == StorageRule::kSwapOnly && far) {
      if (const auto tier = state_.copies.tier_for(item, storage, op + 1)) {
        room_maker_.leave_by_copy(op + 1, storage, *tier);
      }
    }
  }
}

bool StepPass::finish(SweepResult& result) {
  // The next step's inputs come on top of what is on the device when this one ends.
  if (!room_maker_.make_room(state_.table.ops(), inputs_, 0)) return false;
  result.end = close_step(state_, begin_);
  result.draft = std::move(state_.draft);
  result.feasible = true;
  result.step_ns = state_.now;
  return true;
}

}  // namespace spillway::planning::pass
