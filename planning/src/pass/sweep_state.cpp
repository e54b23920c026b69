// SPDX-License-Identifier: Apache-2.0
#include "pass/sweep_state.hpp"

#include <algorithm>
#include <array>

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

TierLevel empty_level(const StepModel& model, Tier tier) {
  const AccessTable& table = model.table;
  return {model.budget(tier), table.alive(table.op_with_most_alive()), table.ops()};
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
      by_next_(settings.by_size ? kSizeClasses : 1),
      host_(empty_level(model, Tier::kHost)),
      disk_(empty_level(model, Tier::kDisk)),
      deadlines_(deadlines_of(model)),
      arrivals_(deadlines_),
      disk_arrivals_(deadlines_) {
  scratch_.reserve(table_.ops());
  for (Row op = 0; op < table_.ops(); ++op) scratch_.push_back(table_.scratch(op));
  duration_ = model.duration;
  for (Row s = 0; s < settings.rules.segment.size(); ++s) {
    if (settings.rules.segment[s] != kNoRow) segments_.emplace_back(settings.rules.segment[s], s);
  }
  std::sort(segments_.begin(), segments_.end());
  began_.reserve(table_.ops());
  for (Row s = 0; s < table_.storages(); ++s) begin_storage(s, begin);
}

void SweepState::begin_storage(Row storage, const BeginState& begin) {
  if (table_.creator(storage) != kNoRow) return;
  Item& item = items_[storage];
  const std::uint64_t bytes = table_.bytes(storage);
  item.next = next_after(storage, kNoRow);
  const std::uint8_t away = begin.away[storage];
  const std::uint8_t copied = away == 0 && !begin.copied.empty() ? begin.copied[storage] : away;
  if (copied == 1 || copied == 2) make_copy(storage, copied == 1 ? Tier::kHost : Tier::kDisk, 0);
  if (away == 0) {
    item.where = Where::kIn;
    used_ += bytes;
    if (table_.predecessor(storage) == kNoRow) inputs_ += bytes;
    offer(storage);
    return;
  }
  if (away == kBeginsNowhere) {
    item.where = Where::kDropped;
    return;
  }
  item.where = away == 1 ? Where::kHost : Where::kDisk;
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
    if (item.where != Where::kIn || item.next == kNoRow || item.next <= op + 1) continue;
    const Row before = rules.leave_before[storage];
    const bool again = !rules.drop_after_use.empty() && rules.drop_after_use[storage] != 0;
    const bool far = before != kNoRow && op < before && item.next >= before;
    if (!far && !(again && op >= before)) continue;
    if (may_replay(storage)) {
      double cost = 0;
      const Closure closure = to_drop(storage, cost);
      if (closure.possible) drop(op + 1, storage, closure);
    } else if (rule_of(storage) == StorageRule::kSwapOnly && far) {
      if (const auto tier = tier_for(storage, op + 1)) leave_by_copy(op + 1, storage, *tier);
    }
  }
}

// The rest of the segments comes back with what is needed of them, where all of it fits.
void SweepState::add_segments(Row op, std::vector<Row>& roots) const {
  const std::vector<Row>& segment = settings_.rules.segment;
  if (segment.empty()) return;
  std::vector<Row> more = roots;
  for (const Row root : roots) {
    if (segment[root] == kNoRow) continue;
    auto member =
        std::lower_bound(segments_.begin(), segments_.end(), std::pair{segment[root], Row{0}});
    for (; member != segments_.end() && member->first == segment[root]; ++member) {
      const Row other = member->second;
      if (items_[other].where != Where::kDropped || items_[other].next >= table_.ops()) continue;
      if (std::find(more.begin(), more.end(), other) == more.end()) more.push_back(other);
    }
  }
  const Closure closure = closure_of(more, op, kNoRow);
  if (closure.possible && fits_replayed(closure, op, kNoRow)) roots = std::move(more);
}

bool SweepState::step(Row op) {
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
  std::vector<Row> dropped = dropped_of(op, kNoRow);
  if (!dropped.empty()) {
    add_segments(op, dropped);
    if (!replay_batch(op, dropped)) return false;
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

bool SweepState::replay_batch(Row op, const std::vector<Row>& roots) {
  Closure closure = closure_of(roots, op, kNoRow);
  to_blame = roots;
  if (!closure.possible) return false;
  const SweepRules& rules = settings_.rules;
  const bool for_each_use =
      rules.drop_in_passing &&
      std::any_of(roots.begin(), roots.end(), [&](Row s) { return rules.drop_after_use[s] != 0; });
  if (for_each_use || !fits_replayed(closure, op, kNoRow)) make_thrifty(closure, op, kNoRow);
  std::uint64_t need = bytes_of(closure, kNoRow).most;
  for (const Row replayed : closure.ops) {
    for (Row row = table_.first_touch_of_op(replayed); row < table_.last_touch_of_op(replayed);
         ++row) {
      if (table_.touch(row).creates) to_blame.push_back(table_.touch(row).storage);
    }
  }
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
  now_ = wait_for_room(now_, bytes_of(closure, kNoRow).most);
  for (const Row replayed : closure.ops) run_again(op, replayed, closure);
  drop_again(op, closure);
  for (const Row leaf : closure.leaves) release_leaf(op, leaf);
  return true;
}

// What a replay read is free for its next use; where the op itself does not need it, at once.
void SweepState::release_leaf(Row op, Row leaf) {
  Item& item = items_[leaf];
  for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
    if (table_.touch(row).storage == leaf) return;
  }
  item.pinned = kNoRow;
  item.free_from = op;
  item.read_again = op;
  item.next = next_after(leaf, op);
  offer(leaf);
}

// What is dropped again has its inputs pledged for its own next use.
void SweepState::drop_again(Row op, const Closure& closure) {
  for (const Row storage : closure.again) {
    draft_.redrops.push_back({{op, last_reader(closure, storage)}, storage});
    Item& item = items_[storage];
    item.next = next_after(storage, op);
    const Closure later = closure_of(dropped_of(item.next, kNoRow), item.next, kNoRow);
    for (const Row leaf : later.leaves) pledge(leaf, item.next);
  }
}

void SweepState::run_again(Row op, Row replayed, const Closure& closure) {
  now_ += static_cast<double>(duration_[replayed]);
  draft_.replays.push_back({op, replayed});
  for (Row row = table_.first_touch_of_op(replayed); row < table_.last_touch_of_op(replayed);
       ++row) {
    const Row made = table_.touch(row).storage;
    Item& item = items_[made];
    if (!table_.touch(row).creates || item.where != Where::kDropped) continue;
    if (std::binary_search(closure.again.begin(), closure.again.end(), made)) continue;
    used_ += table_.bytes(made);
    item.where = Where::kIn;
    item.pinned = op;
    item.free_from = op + 1;
    item.ready = now_;
    item.next = next_after(made, op);
    offer(made);
  }
}

void SweepState::start_op(Row op) {
  double start = wait_for_room(now_, own_need(op));
  for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
    start = std::max(start, items_[table_.touch(row).storage].arrival);
  }
  began_.push_back(start);
  now_ = start + static_cast<double>(duration_[op]);
}

void SweepState::touch_all(Row op) {
  for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
    const Touch& touch = table_.touch(row);
    Item& item = items_[touch.storage];
    if (touch.creates) {
      item.where = Where::kIn;
      used_ += table_.bytes(touch.storage);
    }
    if (touch.writes) forget_copies(touch.storage, op);
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
    forget_copies(storage, op);
    item.where = Where::kDead;
    pledges_.erase(storage);
  }
}

void SweepState::prefetch(Row op) {
  // After this op is the next chance to queue a copy.
  const double chance = now_ + static_cast<double>(duration_[op]);
  const auto urgent = [&](const ArrivalQueue& queue, double link_free, double copy) {
    const double ahead = settings_.lead * copy;
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

// What left only when the replays before this same op had run does not leave.
bool SweepState::stay_after_all(Row op, Row storage) {
  GapChoice& choice = current_choice(storage);
  if (!choice.after_replays || choice.out_at != op) return false;
  set_away(storage, false);
  choice = GapChoice{};
  if (items_[storage].copied_now) forget_copies(storage, op);
  items_[storage].where = Where::kIn;
  used_ += table_.bytes(storage);
  offer(storage);
  return true;
}

void SweepState::fetch(Row op, Row storage) {
  if (stay_after_all(op, storage)) return;
  Item& item = items_[storage];
  const std::uint64_t bytes = table_.bytes(storage);
  const bool from_disk = item.where == Where::kDisk;
  set_away(storage, false);
  current_choice(storage).in_at = op;
  double ready = now_;
  if (from_disk) {
    disk_in_link_free_ =
        std::max(disk_in_link_free_, now_) + model_.copy_ns(LinkKind::kDiskToHost, bytes);
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

bool SweepState::finish(SweepResult& result) {
  // The next step's inputs come on top of what is on the device when this one ends.
  if (!make_room(table_.ops(), inputs_, 0)) return false;
  result.end.away.assign(items_.size(), 0);
  result.end.copied.assign(items_.size(), 0);
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
    result.end.away[storage] = where == Where::kHost        ? 1
                               : where == Where::kDisk      ? 2
                               : table_.only_freed(storage) ? kBeginsNowhere
                                                            : std::uint8_t{0};
    if (result.end.away[storage] == 0) {
      result.end.copied[storage] = items_[older].host_copy ? 1 : items_[older].disk_copy ? 2 : 0;
    }
    close_wrapping_gap(older, storage);
  }
  result.draft = std::move(draft_);
  result.feasible = true;
  result.step_ns = now_;
  return true;
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
    constexpr std::array kRemedies{Remedy::kKeep, Remedy::kHost, Remedy::kDisk, Remedy::kForget};
    end->remedy = kRemedies[began_away_[storage]];
    end->out_at = std::min(items_[older].free_from, ops);
    end->in_at = in_next_step(begin.in_at);
  } else if (begin.remedy != Remedy::kKeep) {
    end->remedy = begin.remedy;
    end->out_at = begin.out_at + ops;
    end->in_at = in_next_step(begin.in_at);
  }
}

}  // namespace spillway::planning::pass
