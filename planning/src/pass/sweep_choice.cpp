// SPDX-License-Identifier: Apache-2.0
// Who leaves the device when room is short, and how.
#include <algorithm>
#include <bit>
#include <cmath>

#include "pass/sweep_state.hpp"

namespace spillway::planning::pass {
namespace {

// A chain longer than this is not worth its look-up; what is dropped on the way ends it earlier.
constexpr std::size_t kMostChain = 24;

// Among candidates nobody waits for, copying still counts a little, so that what stays away longer
// per byte copied is preferred.
constexpr double kIdleLinkPrice = 1e-3;

double rank(LeaveOrder order, const Item& item) {
  return order == LeaveOrder::kFurthest ? static_cast<double>(item.next)
                                        : -static_cast<double>(item.free_from);
}

// Cheapest per byte first in steps of half a power of two; within one, furthest next use first.
double cheapest_first(double ns_per_byte, Row next) {
  const double step = std::floor(2 * std::log2(std::max(ns_per_byte, 1e-12)));
  return step - static_cast<double>(next) * 1e-10;
}

}  // namespace

std::size_t SweepState::size_class(Row storage) const {
  if (!settings_.by_size) return 0;
  const auto bits = static_cast<std::size_t>(std::bit_width(table_.bytes(storage)));
  return std::min(bits / kBitsPerClass, by_next_.size() - 1);
}

void SweepState::offer(Row storage) {
  Item& item = items_[storage];
  ++item.version;
  if (rule_of(storage) == StorageRule::kKeep) return;
  by_next_[size_class(storage)].push({rank(settings_.order, item), {storage, item.version}});
  if (!may_replay(storage)) return;
  const double bytes = static_cast<double>(std::max<std::uint64_t>(table_.bytes(storage), 1));
  by_replay_.push({cheapest_first(model_.replay_share_ns(storage) / bytes, item.next),
                   {storage, item.version}});
}

void SweepState::make_copy(Row storage, Tier tier, Row at) {
  const bool on_host = tier == Tier::kHost;
  (on_host ? items_[storage].host_copy : items_[storage].disk_copy) = true;
  (on_host ? host_ : disk_).add(table_.bytes(storage), at);
}

void SweepState::forget_copies(Row storage, Row op) {
  Item& item = items_[storage];
  if (item.host_copy) host_.remove(table_.bytes(storage), op);
  if (item.disk_copy) disk_.remove(table_.bytes(storage), op);
  item.host_copy = item.disk_copy = false;
}

double SweepState::out_ns(Tier tier, std::uint64_t bytes) const {
  const double device = model_.has_host() ? model_.copy_ns(LinkKind::kDeviceToHost, bytes) : 0;
  return tier == Tier::kHost ? device
                             : std::max(device, model_.copy_ns(LinkKind::kHostToDisk, bytes));
}

double SweepState::in_ns(Where where, std::uint64_t bytes) const {
  return where == Where::kHost ? model_.copy_ns(LinkKind::kHostToDevice, bytes)
                               : model_.copy_ns(LinkKind::kDiskToHost, bytes);
}

void SweepState::set_away(Row storage, bool away) {
  const Item& item = items_[storage];
  if (item.next == kNoRow) return;
  const bool disk = item.where == Where::kDisk;
  ArrivalQueue& queue = disk ? disk_arrivals_ : arrivals_;
  auto& order = disk ? away_on_disk_ : away_;
  const double copy = in_ns(item.where, table_.bytes(storage));
  if (away) {
    queue.add(item.next, copy);
    order.insert({item.next, storage});
  } else {
    queue.remove(item.next, copy);
    order.erase({item.next, storage});
  }
}

GapChoice& SweepState::current_choice(Row storage) {
  const Row touch = items_[storage].touch;
  GapChoice* choice = touch == kNoRow ? &draft_.leading[storage] : &draft_.gap[touch];
  while (choice->more != kNoRow) choice = &draft_.again[choice->more];
  return *choice;
}

GapChoice& SweepState::new_choice(Row storage) {
  GapChoice& choice = current_choice(storage);
  if (choice.remedy == Remedy::kKeep) return choice;
  const Row more = static_cast<Row>(draft_.again.size());
  choice.more = more;
  return draft_.again.emplace_back();
}

bool SweepState::make_room(Row op, std::uint64_t need, Row keep_until) {
  while (used_ + need > capacity_) {
    if (evict_one(op, keep_until, used_ + need - capacity_)) continue;
    short_by = used_ + need - capacity_;
    return false;
  }
  return true;
}

template <typename Heap>
void SweepState::look_at(Heap& heap, bool sooner_follow, Row op, Row keep_until,
                         std::uint64_t wanted, Row& best, Option& best_option) {
  std::vector<Entry> seen;
  // Furthest next use first, what cannot leave costs a look and few are tried; least recently used
  // first, the first that can leave does, however many before it cannot.
  const std::size_t most_seen = settings_.order == LeaveOrder::kFurthest ? 64 : 4096;
  const int most_looked =
      settings_.by_size ? std::max(2, settings_.candidates / 4) : settings_.candidates;
  int looked = 0;
  while (!heap.empty() && looked < most_looked) {
    const Entry entry = heap.top();
    const auto [storage, version] = entry.second;
    const Item& item = items_[storage];
    heap.pop();
    if (item.version != version || item.where != Where::kIn) continue;
    seen.push_back(entry);
    if (seen.size() > most_seen) break;
    if (item.pinned == op || item.free_from > op) continue;
    if (item.next <= keep_until) {
      if (sooner_follow) break;
      continue;
    }
    Option option = price(op, storage, wanted);
    const bool leaves = option.remedy != Remedy::kKeep;
    looked += leaves || settings_.order == LeaveOrder::kFurthest ? 1 : 0;
    if (!leaves) continue;
    if (best != kNoRow && option.score >= best_option.score) continue;
    best = storage;
    best_option = std::move(option);
  }
  for (const Entry& entry : seen) heap.push(entry);  // void when it has left
}

bool SweepState::evict_one(Row op, Row keep_until, std::uint64_t wanted) {
  Row best = kNoRow;
  Option option;
  const bool furthest = settings_.order == LeaveOrder::kFurthest;
  for (auto& of_size : by_next_) look_at(of_size, furthest, op, keep_until, wanted, best, option);
  // The least recently used one leaves whatever it costs.
  if (settings_.recompute && furthest) {
    look_at(by_replay_, false, op, keep_until, wanted, best, option);
  }
  if (best == kNoRow) return false;
  if (items_[best].unused) {
    give_up_fetch(best);
  } else if (option.remedy == Remedy::kForget) {
    drop(op, best, option.closure);
  } else {
    leave_by_copy(op, best, option.remedy == Remedy::kHost ? Tier::kHost : Tier::kDisk);
  }
  return true;
}

std::optional<Tier> SweepState::tier_for(Row storage, Row at) const {
  const Item& item = items_[storage];
  if (item.host_copy) return Tier::kHost;
  if (item.disk_copy) return Tier::kDisk;
  const std::uint64_t bytes = table_.bytes(storage);
  if (model_.has_host() && host_.has_room(bytes, at)) return Tier::kHost;
  if (model_.has_disk() && disk_.has_room(bytes, at)) return Tier::kDisk;
  return std::nullopt;
}

double SweepState::swap_cost(Row op, Row storage, Tier tier) const {
  const Item& item = items_[storage];
  const std::uint64_t bytes = table_.bytes(storage);
  double cost = 0;
  double copying = 0;
  if (!item.host_copy && !item.disk_copy) {
    const double out = out_ns(tier, bytes);
    const LinkClock& link = tier == Tier::kHost ? out_link_ : disk_out_link_;
    const double end = link.look(settings_.early_out ? item.ready : now_, out).end;
    cost += std::max(0.0, end - now_);
    copying += out;
  }
  if (item.next != kNoRow) {
    const bool disk = tier == Tier::kDisk;
    const double in = in_ns(disk ? Where::kDisk : Where::kHost, bytes);
    const double from = std::max(now_, disk ? disk_in_link_free_ : in_link_free_) - lag(op);
    const double slack = (disk ? disk_arrivals_ : arrivals_).slack_with(item.next, in, from);
    cost += std::clamp(-slack, 0.0, in);
    copying += in;
  }
  return cost + copying * (settings_.link_price + kIdleLinkPrice);
}

Option SweepState::price(Row op, Row storage, std::uint64_t wanted) const {
  const Item& item = items_[storage];
  Option option;
  if (rule_of(storage) == StorageRule::kKeep) return option;
  if (item.next == kNoRow && may_be_nowhere(storage)) return {Remedy::kForget, -1, {}};
  const Row until = item.next == kNoRow ? 2 * table_.ops() : item.next;
  const double away = std::max(1.0, deadlines_[until] - deadlines_[op]);
  const auto bytes = static_cast<double>(std::max<std::uint64_t>(table_.bytes(storage), 1));
  const double used = std::min(1.0, static_cast<double>(wanted) / bytes);
  const double worth = bytes * std::pow(used, settings_.fit) * std::pow(away, settings_.reach);
  const bool swaps = rule_of(storage) != StorageRule::kReplayOnly;
  if (const std::optional<Tier> tier = swaps ? tier_for(storage, op) : std::nullopt) {
    option.remedy = *tier == Tier::kHost ? Remedy::kHost : Remedy::kDisk;
    option.score = swap_cost(op, storage, *tier) / worth;
  }
  if (!may_replay(storage)) return option;
  const bool copied = option.remedy != Remedy::kKeep && !settings_.spare_host;
  const double share = model_.replay_share_ns(storage) / worth;
  if (copied && share >= option.score) return option;
  double cost = 0;
  Closure closure = to_drop(storage, cost);
  if (!closure.possible) return option;
  const double score = cost / worth;
  if (copied && score >= option.score) return option;
  return {Remedy::kForget, score, std::move(closure)};
}

// Whether what nothing reads again need not be kept: it dies with the step at the latest, or unused
// in the next one.
bool SweepState::may_be_nowhere(Row storage) const {
  const Row heir = table_.successor(storage);
  return table_.freed_by(storage) != kNoRow || heir == kNoRow || table_.only_freed(heir);
}

// What an op touches and is dropped.
std::vector<Row> SweepState::dropped_of(Row op, Row also_dropped) const {
  std::vector<Row> dropped;
  for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
    const Row storage = table_.touch(row).storage;
    if (items_[storage].where == Where::kDropped || storage == also_dropped) {
      dropped.push_back(storage);
    }
  }
  return dropped;
}

Closure SweepState::closure_of(const std::vector<Row>& roots, Row at, Row also_dropped) const {
  Closure closure;
  std::vector<Row> open;
  open.reserve(roots.size());
  for (const Row root : roots) open.push_back(model_.replay_op[root]);
  while (!open.empty()) {
    const Row op = open.back();
    open.pop_back();
    if (op == kNoRow) return {};
    if (std::find(closure.ops.begin(), closure.ops.end(), op) != closure.ops.end()) continue;
    closure.ops.push_back(op);
    closure.cost += static_cast<double>(duration_[op]);
    for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
      const Touch& touch = table_.touch(row);
      if (touch.creates) continue;
      const Row input = touch.storage;
      const bool there = std::min(model_.next_write[row], table_.freed_by(input)) >= at;
      if (there && items_[input].where != Where::kDropped && input != also_dropped) {
        closure.leaves.push_back(input);
        continue;
      }
      if (!there && (!settings_.transients || model_.next_write[row] != kNoRow)) return {};
      open.push_back(model_.replay_op[input]);
    }
  }
  std::sort(closure.ops.begin(), closure.ops.end());
  std::sort(closure.leaves.begin(), closure.leaves.end());
  closure.leaves.erase(std::unique(closure.leaves.begin(), closure.leaves.end()),
                       closure.leaves.end());
  closure.possible = true;
  return closure;
}

// The last of the ops that makes or reads a storage.
Row SweepState::last_reader(const Closure& closure, Row storage) const {
  Row last = model_.replay_op[storage];
  for (const Row op : closure.ops) {
    for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
      if (table_.touch(row).storage == storage) last = op;
    }
  }
  return last;
}

// What comes back only for the others to be made, and can be made once more, is dropped again.
void SweepState::make_thrifty(Closure& closure, Row at, Row also_dropped) const {
  const std::vector<Row> kept = dropped_of(at, also_dropped);
  for (const Row op : closure.ops) {
    for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
      const Row made = table_.touch(row).storage;
      if (!table_.touch(row).creates ||
          (items_[made].where != Where::kDropped && made != also_dropped))
        continue;
      if (std::find(kept.begin(), kept.end(), made) != kept.end()) continue;
      const Row next = next_after(made, at);
      if (next >= table_.ops() || model_.chain_until[made] < next) continue;
      closure.again.push_back(made);
    }
  }
  std::sort(closure.again.begin(), closure.again.end());
}

// What was dropped comes back and stays; the rest is thrown away after its last reader among them.
BatchBytes SweepState::bytes_of(const Closure& closure, Row also_dropped) const {
  std::unordered_map<Row, Row> last_reader;
  for (const Row op : closure.ops) {
    for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
      last_reader[table_.touch(row).storage] = op;
    }
  }
  BatchBytes bytes;
  std::unordered_map<Row, std::vector<Row>> thrown_after;
  for (const Row op : closure.ops) {
    for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
      const Row made = table_.touch(row).storage;
      if (!table_.touch(row).creates) continue;
      bytes.left += table_.bytes(made);
      const bool back = items_[made].where == Where::kDropped || made == also_dropped;
      if (back && !std::binary_search(closure.again.begin(), closure.again.end(), made)) continue;
      thrown_after[last_reader[made]].push_back(made);
    }
    bytes.most = std::max(bytes.most, bytes.left + scratch_[op]);
    for (const Row made : thrown_after[op]) bytes.left -= table_.bytes(made);
  }
  return bytes;
}

// Whether what runs again before an op fits beside what the op needs of what is not made thereby.
bool SweepState::fits_replayed(const Closure& closure, Row at, Row also_dropped) const {
  const BatchBytes bytes = bytes_of(closure, also_dropped);
  std::uint64_t read = 0;    // by the replays alone: free again when they have run
  std::uint64_t beside = 0;  // needed by the op
  for (const Row leaf : closure.leaves) read += table_.bytes(leaf);
  for (Row row = table_.first_touch_of_op(at); row < table_.last_touch_of_op(at); ++row) {
    const Touch& touch = table_.touch(row);
    const bool made =
        items_[touch.storage].where == Where::kDropped || touch.storage == also_dropped;
    if (touch.creates || made) continue;
    beside += table_.bytes(touch.storage);
    if (std::binary_search(closure.leaves.begin(), closure.leaves.end(), touch.storage)) {
      read -= table_.bytes(touch.storage);
    }
  }
  return read + beside + bytes.most <= capacity_ && beside + bytes.left + own_need(at) <= capacity_;
}

// What is run again before the next use of a storage if it is dropped too, and what that costs more
// than what is run again there already.
Closure SweepState::to_drop(Row storage, double& cost) const {
  const Row at = items_[storage].next;
  const Closure before = closure_of(dropped_of(at, kNoRow), at, kNoRow);
  Closure closure = closure_of(dropped_of(at, storage), at, storage);
  const Row op = model_.replay_op[storage];
  if (!closure.possible || closure.ops.size() > kMostChain) return {};
  // A replay that was to read it is no longer made: its next use is further on than thought.
  if (!std::binary_search(closure.ops.begin(), closure.ops.end(), op)) return {};
  if (!fits_replayed(closure, at, storage)) {
    make_thrifty(closure, at, storage);
    if (!fits_replayed(closure, at, storage)) return {};
  }
  cost = closure.cost - before.cost;
  return closure;
}

void SweepState::pledge(Row storage, Row at) {
  pledges_[storage].push_back(at);
  Item& item = items_[storage];
  if (at >= item.next) return;
  const bool away = item.where == Where::kHost || item.where == Where::kDisk;
  if (away) set_away(storage, false);
  item.next = at;
  if (away) {
    set_away(storage, true);
  } else if (item.where == Where::kIn) {
    offer(storage);
  }
}

void SweepState::drop(Row op, Row storage, const Closure& closure) {
  Item& item = items_[storage];
  GapChoice& choice = new_choice(storage);
  choice.remedy = Remedy::kForget;
  choice.out_at = settings_.early_out ? std::min(item.free_from, op) : op;
  choice.after_replays = choice.out_at == item.read_again;
  used_ -= table_.bytes(storage);
  forget_copies(storage, op);
  item.where = Where::kDropped;
  if (item.next == kNoRow) return;  // nothing reads it again
  for (const Row leaf : closure.leaves) pledge(leaf, item.next);
}

// As if it had never been queued; what the link was taken for stays, on the safe side.
void SweepState::give_up_fetch(Row storage) {
  Item& item = items_[storage];
  current_choice(storage).in_at = kNoRow;
  item.unused = false;
  item.where = item.host_copy ? Where::kHost : Where::kDisk;
  used_ -= table_.bytes(storage);
  set_away(storage, true);
}

void SweepState::leave_by_copy(Row op, Row storage, Tier tier) {
  Item& item = items_[storage];
  const std::uint64_t bytes = table_.bytes(storage);
  GapChoice& choice = new_choice(storage);
  choice.remedy = tier == Tier::kHost ? Remedy::kHost : Remedy::kDisk;
  choice.out_at = settings_.early_out ? std::min(item.free_from, op) : op;
  choice.after_replays = choice.out_at == item.read_again;
  used_ -= bytes;
  item.copied_now = !item.host_copy && !item.disk_copy;
  if (item.copied_now) {
    LinkClock& link = tier == Tier::kHost ? out_link_ : disk_out_link_;
    const LinkClock::Slot slot =
        link.take(settings_.early_out ? item.ready : now_, out_ns(tier, bytes));
    // The copy is queued before the op at which the link is free for it.
    const auto later = std::upper_bound(began_.begin(), began_.end(), slot.begin);
    const Row free_at = later == began_.begin() ? 0 : static_cast<Row>(later - began_.begin() - 1);
    if (settings_.early_out) choice.out_at = std::clamp(free_at, choice.out_at, op);
    choice.out_at = (tier == Tier::kHost ? host_ : disk_).earliest(bytes, choice.out_at, op);
    choice.after_replays = choice.out_at == item.read_again;
    if (slot.end > now_) {
      leaving_.push({slot.end, bytes});
      leaving_bytes_ += bytes;
    }
    make_copy(storage, tier, choice.out_at);
  }
  item.where = item.host_copy ? Where::kHost : Where::kDisk;
  set_away(storage, true);
}

}  // namespace spillway::planning::pass
