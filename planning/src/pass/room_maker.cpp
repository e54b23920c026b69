// SPDX-License-Identifier: Apache-2.0
#include "pass/room_maker.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace spillway::planning::pass {
namespace {

// Among candidates nobody waits for, copying still counts a little, so that what stays away longer
// per byte copied is preferred.
constexpr double kIdleLinkPrice = 1e-3;

}  // namespace

bool RoomMaker::make_room(Row op, std::uint64_t need, Row keep_until) {
  while (const std::uint64_t missing = state_.room.missing(need)) {
    if (evict_one(op, keep_until, missing)) continue;
    short_by_ = missing;
    return false;
  }
  return true;
}

bool RoomMaker::evict_one(Row op, Row keep_until, std::uint64_t wanted) {
  const SweepSettings& settings = state_.settings;
  const bool furthest = settings.order == LeaveOrder::kFurthest;
  Row best = kNoRow;
  Way way;
  const auto look = [&](Row storage, bool sooner_follow) {
    const PassItem& item = state_.items[storage];
    if (item.pinned == op || item.free_from > op) return Look::kPassedOver;
    if (item.next <= keep_until) return sooner_follow ? Look::kEnough : Look::kPassedOver;
    Way this_way = price(op, storage, wanted);
    const bool leaves = this_way.remedy != Remedy::kKeep;
    if (leaves && (best == kNoRow || this_way.score < way.score)) {
      best = storage;
      way = std::move(this_way);
    }
    return leaves || furthest ? Look::kLooked : Look::kPassedOver;
  };
  const int most = settings.by_size ? std::max(2, settings.candidates / 4) : settings.candidates;
  state_.candidates.each_by_use(state_.items, most, [&](Row s) { return look(s, furthest); });
  // The least recently used one leaves whatever it costs.
  if (settings.recompute && furthest) {
    state_.candidates.each_by_recomputation(state_.items, most,
                                            [&](Row s) { return look(s, false); });
  }
  if (best == kNoRow) return false;
  if (state_.items[best].unused) {
    give_up_fetch(best);
  } else if (way.remedy == Remedy::kDrop) {
    drop(op, best, way.set);
  } else {
    leave_by_copy(op, best, way.remedy == Remedy::kHost ? Tier::kHost : Tier::kDisk);
  }
  return true;
}

double RoomMaker::swap_cost(Row op, Row storage, Tier tier) const {
  const PassItem& item = state_.items[storage];
  const CopySchedule& schedule = state_.schedule;
  const std::uint64_t bytes = state_.table.bytes(storage);
  double cost = 0;
  double copying = 0;
  if (!item.host_copy && !item.disk_copy) {
    const double ready = state_.settings.early_out ? item.ready : state_.now;
    cost += std::max(0.0, schedule.look_out(tier, ready, bytes).end - state_.now);
    copying += schedule.out_ns(tier, bytes);
  }
  if (item.next != kNoRow) {
    const double in = schedule.in_ns(tier, bytes);
    const double from = std::max(state_.now, schedule.in_free(tier)) - state_.lag(op);
    cost += std::clamp(-schedule.slack_with(tier, item.next, in, from), 0.0, in);
    copying += in;
  }
  return cost + copying * (state_.settings.link_price + kIdleLinkPrice);
}

RoomMaker::Way RoomMaker::price(Row op, Row storage, std::uint64_t wanted) const {
  const PassItem& item = state_.items[storage];
  const AccessTable& table = state_.table;
  const StorageRule rule = state_.rule_of(storage);
  Way way;
  if (rule == StorageRule::kKeep) return way;
  if (item.next == kNoRow && may_be_nowhere(storage)) return {Remedy::kDrop, -1, {}};
  const Row until = item.next == kNoRow ? 2 * table.ops() : item.next;
  const double away = std::max(1.0, state_.deadlines[until] - state_.deadlines[op]);
  const auto bytes = static_cast<double>(std::max<std::uint64_t>(table.bytes(storage), 1));
  const double used = std::min(1.0, static_cast<double>(wanted) / bytes);
  const double worth = bytes * std::pow(used, state_.settings.surplus_exponent) *
                       std::pow(away, state_.settings.away_exponent);
  if (rule != StorageRule::kRecomputeOnly) {
    if (const std::optional<Tier> tier = state_.copies.tier_for(item, storage, op)) {
      way.remedy = *tier == Tier::kHost ? Remedy::kHost : Remedy::kDisk;
      way.score = swap_cost(op, storage, *tier) / worth;
    }
  }
  if (!state_.may_recompute(storage)) return way;
  const bool copied = way.remedy != Remedy::kKeep && !state_.settings.spare_host;
  const double share = state_.model.recompute_share_ns(storage) / worth;
  if (copied && share >= way.score) return way;
  double cost = 0;
  RecomputeSet set = state_.recomputation.if_dropped(storage, cost);
  if (!set.possible) return way;
  const double score = cost / worth;
  if (copied && score >= way.score) return way;
  return {Remedy::kDrop, score, std::move(set)};
}

// Whether what nothing reads again need not be kept: it dies with the step at the latest, or unused
// in the next one.
bool RoomMaker::may_be_nowhere(Row storage) const {
  const AccessTable& table = state_.table;
  const Row heir = table.successor(storage);
  return table.freed_by(storage) != kNoRow || heir == kNoRow || table.only_freed(heir);
}

GapChoice& RoomMaker::new_choice(Row storage) {
  GapChoice& choice = state_.current_choice(storage);
  if (choice.remedy == Remedy::kKeep) return choice;
  choice.more = static_cast<Row>(state_.draft.again.size());
  return state_.draft.again.emplace_back();
}

void RoomMaker::pledge(Row storage, Row at) {
  state_.uses.pledge(storage, at);
  PassItem& item = state_.items[storage];
  if (at >= item.next) return;
  if (item.is_away()) {
    state_.set_away(storage, false);
    item.next = at;
    state_.set_away(storage, true);
    return;
  }
  item.next = at;
  if (item.where == Where::kIn) state_.offer(storage);
}

void RoomMaker::drop(Row op, Row storage, const RecomputeSet& set) {
  PassItem& item = state_.items[storage];
  GapChoice& choice = new_choice(storage);
  choice.remedy = Remedy::kDrop;
  choice.out_at = state_.settings.early_out ? std::min(item.free_from, op) : op;
  choice.after_recomputations = choice.out_at == item.read_again;
  state_.room.used -= state_.table.bytes(storage);
  state_.remove_copies(storage, op);
  item.where = Where::kDropped;
  if (item.next == kNoRow) return;  // nothing reads it again
  for (const Row leaf : set.leaves) pledge(leaf, item.next);
}

// As if it had never been queued; what the link was taken for stays, on the safe side.
void RoomMaker::give_up_fetch(Row storage) {
  PassItem& item = state_.items[storage];
  state_.current_choice(storage).in_at = kNoRow;
  item.unused = false;
  item.where = item.host_copy ? Where::kHost : Where::kDisk;
  state_.room.used -= state_.table.bytes(storage);
  state_.set_away(storage, true);
}

void RoomMaker::place_copy_out(Row op, Row storage, Tier tier, GapChoice& choice) {
  PassItem& item = state_.items[storage];
  const std::uint64_t bytes = state_.table.bytes(storage);
  const bool early = state_.settings.early_out;
  const LinkClock::Slot slot =
      state_.schedule.take_out(tier, early ? item.ready : state_.now, bytes);
  // The copy is queued before the op at which the link is free for it.
  const std::vector<double>& began = state_.began;
  const auto later = std::upper_bound(began.begin(), began.end(), slot.begin);
  const Row free_at = later == began.begin() ? 0 : static_cast<Row>(later - began.begin() - 1);
  if (early) choice.out_at = std::clamp(free_at, choice.out_at, op);
  choice.out_at = state_.copies.earliest(tier, bytes, choice.out_at, op);
  choice.after_recomputations = choice.out_at == item.read_again;
  if (slot.end > state_.now) state_.schedule.leaves_at(slot.end, bytes);
  state_.copies.add(item, storage, tier, choice.out_at);
}

void RoomMaker::leave_by_copy(Row op, Row storage, Tier tier) {
  PassItem& item = state_.items[storage];
  GapChoice& choice = new_choice(storage);
  choice.remedy = tier == Tier::kHost ? Remedy::kHost : Remedy::kDisk;
  choice.out_at = state_.settings.early_out ? std::min(item.free_from, op) : op;
  choice.after_recomputations = choice.out_at == item.read_again;
  state_.room.used -= state_.table.bytes(storage);
  item.copied_now = !item.host_copy && !item.disk_copy;
  if (item.copied_now) place_copy_out(op, storage, tier, choice);
  item.where = item.host_copy ? Where::kHost : Where::kDisk;
  state_.set_away(storage, true);
}

}  // namespace spillway::planning::pass
