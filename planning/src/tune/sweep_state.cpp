// SPDX-License-Identifier: Apache-2.0
#include "tune/sweep_state.hpp"

#include <algorithm>

namespace spillway::planning::tune {
namespace {

constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

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

SweepState::SweepState(const StepModel& model, const SweepSettings& settings,
                       const BeginState& begin)
    : model_(model),
      table_(model.table),
      settings_(settings),
      capacity_(model.budget(Tier::kDevice) -
                std::min(settings.reserve, model.budget(Tier::kDevice))),
      draft_(model.table),
      items_(model.table.storages()),
      began_away_(begin.away),
      deadlines_(deadlines_of(model)),
      arrivals_(deadlines_),
      disk_arrivals_(deadlines_) {
  std::uint64_t most = 0;
  for (Row op = 0; op < table_.ops(); ++op) most = std::max(most, table_.alive(op));
  host_tight_ = most > model.budget(Tier::kHost);
  scratch_.reserve(table_.ops());
  for (Row op = 0; op < table_.ops(); ++op) scratch_.push_back(table_.scratch(op));
  duration_ = model.duration;
  for (Row s = 0; s < settings.rules.segment.size(); ++s) {
    if (settings.rules.segment[s] != kNoRow) segments_.emplace_back(settings.rules.segment[s], s);
  }
  std::sort(segments_.begin(), segments_.end());
  replayed_bytes_.assign(table_.ops() + 1, 0);
  began_.reserve(table_.ops());
  for (Row s = 0; s < table_.storages(); ++s) begin_storage(s, begin.away[s]);
}

void SweepState::begin_storage(Row storage, std::uint8_t away) {
  if (table_.creator(storage) != kNoRow) return;
  Item& item = items_[storage];
  const std::uint64_t bytes = table_.bytes(storage);
  item.next = next_after(storage, kNoRow);
  if (away == 0) {
    item.where = Where::kIn;
    used_ += bytes;
    offer(storage);
    return;
  }
  item.where = away == 1 ? Where::kHost : Where::kDisk;
  (away == 1 ? item.host_copy : item.disk_copy) = true;
  (away == 1 ? host_used_ : disk_used_) += bytes;
  set_away(storage, true);
}

// The position of the next use after op `op` (kNoRow: from the beginning), replays included.
Row SweepState::next_after(Row storage, Row op) const {
  const Row touch = items_[storage].touch;
  Row next = kNoRow;
  if (touch == kNoRow) {
    const Row first = table_.first_touch(storage);
    if (first != kNoRow) next = table_.op_of(first);
  } else {
    const GapEnd end = end_of_gap(table_, touch);
    if (end.touch != kNoRow) next = table_.op_of(end.touch) + (end.wraps ? table_.ops() : 0);
  }
  const auto pledged = pledges_.find(storage);
  if (pledged != pledges_.end()) {
    for (const Row at : pledged->second) {
      if ((op == kNoRow || at > op) && at < next) next = at;
    }
  }
  return next;
}

bool SweepState::may_replay(Row storage) const {
  const StorageRule rule = rule_of(storage);
  const Item& item = items_[storage];
  return settings_.recompute && (rule == StorageRule::kAny || rule == StorageRule::kReplayOnly) &&
         model_.replay_op[storage] != kNoRow && item.next < table_.ops() &&
         model_.chain_until[storage] >= item.next;
}

// The fastest alternative that needs nothing to leave; the smallest where all would.
void SweepState::choose_workspace(Row op) {
  const auto& others = model_.alternatives;
  if (others.offsets.size() < 2 || others[OpIndex{op}].empty()) return;
  std::uint64_t coming = model_.created[op];
  for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
    const Item& item = items_[table_.touch(row).storage];
    if (item.where != Where::kIn && !table_.touch(row).creates) {
      coming += table_.bytes(table_.touch(row).storage);
    }
  }
  const std::uint64_t room = capacity_ > used_ + coming ? capacity_ - used_ - coming : 0;
  const auto better = [&](TimeNs time, std::uint64_t scratch, TimeNs best_time,
                          std::uint64_t best_scratch) {
    if ((scratch <= room) != (best_scratch <= room)) return scratch <= room;
    return scratch <= room ? time < best_time : scratch < best_scratch;
  };
  std::uint32_t number = 0;
  std::optional<std::uint32_t> chosen;
  for (const OpAlternative& other : others[OpIndex{op}]) {
    if (better(other.duration_ns, other.alloc_peak.count, duration_[op], scratch_[op])) {
      duration_[op] = other.duration_ns;
      scratch_[op] = other.alloc_peak.count;
      chosen = number;
    }
    ++number;
  }
  if (chosen) draft_.alternatives.emplace_back(op, *chosen);
}

// What has a rule to leave, or is dropped after each use, goes as soon as its gap begins.
void SweepState::leave_eagerly(Row op) {
  const SweepRules& rules = settings_.rules;
  if (rules.leave_before.empty()) return;
  for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
    const Row storage = table_.touch(row).storage;
    const Item& item = items_[storage];
    if (item.where != Where::kIn || item.next == kNoRow) continue;
    const Row before = rules.leave_before[storage];
    const bool again = !rules.drop_after_use.empty() && rules.drop_after_use[storage] != 0;
    const bool far = before != kNoRow && op < before && item.next >= before;
    if (!far && !(again && op >= before)) continue;
    if (may_replay(storage)) {
      const Closure closure = closure_of(storage, item.next, table_.ops());
      if (closure.possible && fits_replayed(closure, item.next)) drop(op + 1, storage, closure);
    } else if (rule_of(storage) == StorageRule::kSwapOnly && far) {
      if (const auto tier = tier_for(storage)) leave_by_copy(op + 1, storage, *tier);
    }
  }
}

// The rest of the segment comes back with what is needed of it.
void SweepState::revive_segment(Row op, Row storage) {
  const SweepRules& rules = settings_.rules;
  if (rules.segment.empty() || rules.segment[storage] == kNoRow) return;
  const auto first = std::lower_bound(
      segments_.begin(), segments_.end(), std::pair{rules.segment[storage], Row{0}});
  for (auto member = first;
       member != segments_.end() && member->first == rules.segment[storage]; ++member) {
    const Item& item = items_[member->second];
    if (item.where != Where::kDropped || item.next >= table_.ops()) continue;
    if (used_ + own_need(op) + table_.bytes(member->second) > capacity_) return;
    const Closure closure = closure_of(member->second, op, table_.ops());
    if (!closure.possible || !fits_replayed(closure, op)) continue;
    if (!replay_for(op, member->second)) return;
  }
}

bool SweepState::step(Row op) {
  op_ = op;
  for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
    items_[table_.touch(row).storage].pinned = op;
  }
  if (settings_.choose_workspace) choose_workspace(op);
  if (!bring_in(op)) return false;
  if (settings_.prefetch) prefetch(op);
  to_blame.clear();
  start_op(op);
  touch_all(op);
  end_op(op);
  leave_eagerly(op);
  return true;
}

bool SweepState::bring_in(Row op) {
  const Row first = table_.first_touch_of_op(op);
  const Row last = table_.last_touch_of_op(op);
  for (Row row = first; row < last; ++row) {
    const Row storage = table_.touch(row).storage;
    if (items_[storage].where != Where::kDropped) continue;
    if (!replay_for(op, storage)) {
      to_blame.push_back(storage);
      return false;
    }
    revive_segment(op, storage);
  }
  std::uint64_t need = own_need(op);
  for (Row row = first; row < last; ++row) {
    const Row storage = table_.touch(row).storage;
    const Where where = items_[storage].where;
    if (where == Where::kHost || where == Where::kDisk) need += table_.bytes(storage);
  }
  if (!make_room(op, need, op)) return false;
  for (Row row = first; row < last; ++row) {
    const Row storage = table_.touch(row).storage;
    const Where where = items_[storage].where;
    if (where == Where::kHost || where == Where::kDisk) fetch(op, storage);
  }
  return true;
}

bool SweepState::replay_for(Row op, Row storage) {
  const Closure closure = closure_of(storage, op, kAnyNumber);
  if (!closure.possible) return false;
  for (const Row replayed : closure.ops) {
    for (Row row = table_.first_touch_of_op(replayed); row < table_.last_touch_of_op(replayed);
         ++row) {
      if (table_.touch(row).creates) to_blame.push_back(table_.touch(row).storage);
    }
  }
  std::uint64_t need = 0;
  for (const Row leaf : closure.leaves) {
    items_[leaf].pinned = op;
    items_[leaf].free_from = op + 1;
    const Where where = items_[leaf].where;
    if (where == Where::kHost || where == Where::kDisk) need += table_.bytes(leaf);
  }
  if (!make_room(op, need, op)) return false;
  for (const Row leaf : closure.leaves) {
    const Where where = items_[leaf].where;
    if (where == Where::kHost || where == Where::kDisk) fetch(op, leaf);
    items_[leaf].unused = false;
    now_ = std::max(now_, items_[leaf].arrival);
    items_[leaf].ready = now_;
  }
  return std::all_of(closure.ops.begin(), closure.ops.end(),
                     [&](Row replayed) { return run_again(op, replayed); });
}

bool SweepState::run_again(Row op, Row replayed) {
  // Replays of one op run by ascending op, whichever was asked for first.
  replay_scratch_ = std::max(replay_scratch_, scratch_[replayed]);
  const std::uint64_t need = model_.created[replayed] + replay_scratch_;
  if (!make_room(op, need, op)) return false;
  now_ = wait_for_room(now_, need) + static_cast<double>(duration_[replayed]);
  draft_.replays.push_back({op, replayed});
  for (Row row = table_.first_touch_of_op(replayed); row < table_.last_touch_of_op(replayed);
       ++row) {
    if (!table_.touch(row).creates) continue;
    const Row made = table_.touch(row).storage;
    Item& item = items_[made];
    used_ += table_.bytes(made);
    if (item.where != Where::kDropped) {
      transient_ += table_.bytes(made);
      transients_.push_back(made);
      continue;
    }
    item.where = Where::kIn;
    item.pinned = op;
    item.free_from = op + 1;
    item.ready = now_;
    item.next = next_after(made, op);
    offer(made);
  }
  return true;
}

void SweepState::start_op(Row op) {
  double start = wait_for_room(now_, own_need(op));
  for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
    start = std::max(start, items_[table_.touch(row).storage].arrival);
  }
  began_.push_back(start);
  now_ = start + static_cast<double>(duration_[op]);
  used_ -= transient_;
  transient_ = 0;
  transients_.clear();
  replay_scratch_ = 0;
}

void SweepState::touch_all(Row op) {
  for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
    const Touch& touch = table_.touch(row);
    Item& item = items_[touch.storage];
    if (touch.creates) {
      item.where = Where::kIn;
      used_ += table_.bytes(touch.storage);
    }
    if (touch.writes) forget_copies(touch.storage);
    item.touch = row;
    item.free_from = op + 1;
    item.ready = now_;
    item.unused = false;
    item.next = next_after(touch.storage, op);
    offer(touch.storage);
  }
}

void SweepState::end_op(Row op) {
  for (const Row storage : table_.frees(op)) {
    Item& item = items_[storage];
    if (item.where == Where::kIn) used_ -= table_.bytes(storage);
    if (item.where == Where::kHost || item.where == Where::kDisk) set_away(storage, false);
    forget_copies(storage);
    item.where = Where::kDead;
    pledges_.erase(storage);
  }
}

void SweepState::prefetch(Row op) {
  // After this op is the next chance to queue a copy.
  const double chance = now_ + static_cast<double>(duration_[op]);
  const auto urgent = [&](const ArrivalQueue& queue, double link_free, double copy) {
    const double ahead = settings_.lead_ns + settings_.lead * copy;
    // While the link is busy anyway, queueing more would only take room.
    return link_free <= chance + ahead && chance + ahead >= queue.latest_start() + lag(op);
  };
  while (!away_.empty()) {
    const std::uint64_t bytes = table_.bytes(away_.begin()->second);
    if (!urgent(arrivals_, in_link_free_, in_ns(Where::kHost, bytes))) break;
    if (!queue_next(op, false)) break;
  }
  while (!away_on_disk_.empty()) {
    const std::uint64_t bytes = table_.bytes(away_on_disk_.begin()->second);
    if (!urgent(disk_arrivals_, disk_in_link_free_, in_ns(Where::kDisk, bytes))) break;
    if (!queue_next(op, true)) break;
  }
}

bool SweepState::queue_next(Row op, bool from_disk) {
  const auto [position, storage] = *(from_disk ? away_on_disk_ : away_).begin();
  if (!make_room(op, own_need(op) + table_.bytes(storage), position)) return false;
  fetch(op, storage);
  return true;
}

void SweepState::fetch(Row op, Row storage) {
  Item& item = items_[storage];
  const std::uint64_t bytes = table_.bytes(storage);
  const bool from_disk = item.where == Where::kDisk;
  set_away(storage, false);
  current_choice(storage).in_at = op;
  double ready = now_;
  if (from_disk) {
    disk_in_link_free_ = std::max(disk_in_link_free_, now_) +
                         model_.copy_ns(LinkKind::kDiskToHost, bytes);
    ready = disk_in_link_free_;
  }
  item.where = Where::kIn;
  used_ += bytes;
  ready = wait_for_room(ready, 0);
  item.arrival = ready;
  if (model_.has_host()) {
    in_link_free_ = std::max(in_link_free_, ready) + model_.copy_ns(LinkKind::kHostToDevice, bytes);
    item.arrival = in_link_free_;
  }
  item.ready = item.arrival;
  item.unused = true;
  offer(storage);
}

double SweepState::wait_for_room(double time, std::uint64_t bytes) {
  while (!leaving_.empty() &&
         (leaving_.top().first <= time || used_ + leaving_bytes_ + bytes > capacity_)) {
    time = std::max(time, leaving_.top().first);
    leaving_bytes_ -= leaving_.top().second;
    leaving_.pop();
  }
  return time;
}

void SweepState::finish(SweepResult& result) {
  result.end.away.assign(items_.size(), 0);
  for (Row storage = 0; storage < table_.storages(); ++storage) {
    const Row older = table_.predecessor(storage);
    if (older == kNoRow) continue;
    if (table_.first_touch(older) == kNoRow && older == storage) {
      if (began_away_[storage] != 0) {
        draft_.idle[storage] = began_away_[storage] == 1 ? Tier::kHost : Tier::kDisk;
      }
      result.end.away[storage] = began_away_[storage];
      continue;
    }
    const Where where = items_[older].where;
    result.end.away[storage] = where == Where::kHost ? 1 : where == Where::kDisk ? 2 : 0;
    close_wrapping_gap(older, storage);
  }
  result.draft = std::move(draft_);
  result.feasible = true;
  result.step_ns = now_;
}

// The end of this pass and its beginning are two halves of the same gap. Where they disagree the
// storage is away in both, which needs no more memory than either.
void SweepState::close_wrapping_gap(Row older, Row storage) {
  const GapChoice begin = std::exchange(draft_.leading[storage], GapChoice{});
  const Row last = table_.last_touch(older);
  if (last == kNoRow) return;
  GapChoice* end = &draft_.gap[last];
  while (end->more != kNoRow) end = &draft_.again[end->more];
  const Row ops = table_.ops();
  const bool left = end->remedy != Remedy::kKeep;
  const bool away = began_away_[storage] != 0;
  const auto in_next_step = [&](Row at) { return at == kNoRow ? kNoRow : at + ops; };
  if (left && end->in_at != kNoRow && !away && begin.remedy == Remedy::kKeep) return;
  if (left) {
    end->in_at = away || begin.remedy != Remedy::kKeep ? in_next_step(begin.in_at) : ops;
  } else if (away) {
    end->remedy = began_away_[storage] == 1 ? Remedy::kHost : Remedy::kDisk;
    end->out_at = std::min(items_[older].free_from, ops);
    end->in_at = in_next_step(begin.in_at);
  } else if (begin.remedy != Remedy::kKeep) {
    end->remedy = begin.remedy;
    end->out_at = begin.out_at + ops;
    end->in_at = in_next_step(begin.in_at);
  }
}

}  // namespace spillway::planning::tune

namespace spillway::planning {

SweepResult sweep_from(const StepModel& model, const SweepSettings& settings,
                       const BeginState& begin) {
  SweepResult result;
  tune::SweepState state(model, settings, begin);
  for (Row op = 0; op < model.ops(); ++op) {
    if (state.step(op)) continue;
    result.binding_op = op;
    result.short_by = state.short_by;
    result.to_blame = state.to_blame;
    return result;
  }
  state.finish(result);
  return result;
}

namespace {

// Before the first pass: what is used first is on the device, as far as half of it goes; what is
// never used is not.
BeginState first_guess(const StepModel& model) {
  const AccessTable& table = model.table;
  BeginState begin;
  begin.away.assign(table.storages(), 0);
  std::uint64_t most = 0;
  for (Row op = 0; op < table.ops(); ++op) most = std::max(most, table.alive(op));
  if (most <= model.budget(Tier::kDevice)) return begin;
  const std::uint8_t away = model.has_host() && model.budget(Tier::kHost) > 0 ? 1 : 2;
  std::vector<std::pair<Row, Row>> order;
  for (Row s = 0; s < table.storages(); ++s) {
    if (table.predecessor(s) == kNoRow) continue;
    const Row first = table.first_touch(s);
    order.emplace_back(first == kNoRow ? kNoRow : table.op_of(first), s);
  }
  std::sort(order.begin(), order.end());
  std::uint64_t there = 0;
  std::uint64_t host = 0;
  for (const auto& [op, s] : order) {
    there += table.bytes(s);
    if (op != kNoRow && there <= model.budget(Tier::kDevice) / 2) continue;
    const bool fits = away == 1 && host + table.bytes(s) <= model.budget(Tier::kHost);
    if (fits) host += table.bytes(s);
    begin.away[s] = fits ? 1 : model.has_disk() && model.budget(Tier::kDisk) > 0 ? 2 : 0;
  }
  return begin;
}

}  // namespace

namespace {

// Where replays did not fit after all, the storages they were for are copied instead.
SweepResult retried(const StepModel& model, SweepSettings& settings, const BeginState& begin) {
  constexpr int kMostTries = 8;
  for (int tries = 0;; ++tries) {
    SweepResult result = sweep_from(model, settings, begin);
    if (result.feasible || result.to_blame.empty() || tries == kMostTries) return result;
    settings.rules.rule.resize(model.table.storages(), StorageRule::kAny);
    for (const Row storage : result.to_blame) {
      settings.rules.rule[storage] = StorageRule::kSwapOnly;
    }
  }
}

}  // namespace

SweepResult sweep(const StepModel& model, const SweepSettings& settings) {
  SweepSettings now = settings;
  SweepResult first = retried(model, now, first_guess(model));
  if (!first.feasible) return first;
  SweepResult second = retried(model, now, first.end);
  return second.feasible ? second : first;
}

}  // namespace spillway::planning
