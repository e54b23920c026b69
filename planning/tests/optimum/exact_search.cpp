// SPDX-License-Identifier: Apache-2.0
#include "exact_search.hpp"

#include <algorithm>
#include <array>
#include <queue>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "exact_plan.hpp"
#include "exact_state.hpp"

namespace spillway::planning::exact {
namespace {

constexpr TimeNs kCells = 16;  // of a copy that is under way at the turn of the step

struct Step {
  std::uint32_t from = 0;
  Deed deed = Deed::kTime;
  std::uint8_t what = 0;
  std::uint8_t kind = kPlain;
};

class Search {
 public:
  Search(const Problem& problem, TimeNs limit, std::size_t most_states)
      : problem_(problem), limit_(limit), most_states_(most_states) {
    const Trace& trace = problem.trace;
    count_ = trace.storages.size();
    if (count_ > 16) throw std::length_error("too many storages");
    Mask born = 0;
    for (std::size_t i = 0; i < trace.ops.size(); ++i) {
      const OpIndex op{i};
      OpFacts facts;
      for (const StorageId s : trace.ops.reads[op]) facts.reads |= bit(to_value(s));
      for (const StorageId s : trace.ops.writes[op]) facts.writes |= bit(to_value(s));
      for (const StorageId s : trace.ops.creates[op]) facts.creates |= bit(to_value(s));
      for (const StorageId s : trace.ops.frees[op]) facts.frees |= bit(to_value(s));
      facts.reads = static_cast<Mask>((facts.reads | facts.writes) & ~facts.creates);
      facts.duration = trace.ops.duration_ns[i];
      facts.workspace = trace.ops.workspace[i].count;
      facts.recomputable = trace.ops.recomputable[i] != 0;
      born |= facts.creates;
      ops_.push_back(facts);
    }
    later_.resize(ops_.size() + 1);
    for (std::size_t i = ops_.size(); i-- > 0;) later_[i] = later_[i + 1] + ops_[i].duration;
    for (std::size_t s = 0; s < count_; ++s) {
      bytes_.push_back(trace.storages.bytes[s].count);
      if (!in(born, s)) lives_on_ |= bit(s);
    }
    host_is_tight_ = problem.budgets[Tier::kHost].count < bytes_of(all());
    has_disk_ = problem.budgets[Tier::kDisk].count > 0;
  }

  std::optional<ExactStep> best() {
    State start;
    turn(start, 0);
    return std::move(best_);
  }

 private:
  // --- the turn of the step ---

  /// All states of the storages that live on, from `storage` on.
  void turn(State state, std::size_t storage) {
    while (storage < count_ && !in(lives_on_, storage)) ++storage;
    if (storage == count_) {
      if (device_used(state) <= budget(Tier::kDevice)) from(state);
      return;
    }
    const Mask mine = bit(storage);
    State next = state;
    next.device |= mine;
    turn(next, storage + 1);
    start_with_copy(next, LinkKind::kDeviceToHost, storage);
    next.host |= mine;
    turn(next, storage + 1);
    next = state;
    next.host |= mine;
    turn(next, storage + 1);
    start_with_copy(next, LinkKind::kHostToDevice, storage);
  }
  void start_with_copy(State state, LinkKind link, std::size_t storage) {
    Lane& lane = state.lane[index_of(link)];
    if (lane.storage != kNone) return;
    lane.storage = static_cast<std::uint8_t>(storage);
    for (TimeNs cell = 1; cell < kCells; ++cell) {
      lane.left = copy_ns(link, storage) * cell / kCells;
      if (lane.left > 0) turn(state, storage + 1);
    }
  }

  /// Whether the step ends as it began, or better: further with its copies.
  [[nodiscard]] bool returns(const State& begin, const State& end) const {
    if (end.op != ops_.size() || end.running != kNone) return false;
    for (std::size_t s = 0; s < count_; ++s) {
      if (!in(lives_on_, s)) continue;
      const TimeNs due = left_of(begin, s);
      const LinkKind link = link_of(begin, s) ? *link_of(begin, s) : LinkKind::kHostToDevice;
      const bool both = in(end.device & end.host, s);
      if (due > 0) {
        if (both) continue;
        if (link_of(end, s) != link) return false;
        if (left_of(end, s) > due + copy_ns(link, s) / kCells + 1) return false;
      } else if (in(begin.device & begin.host, s) && link_of(end, s)) {
        if (left_of(end, s) > copy_ns(*link_of(end, s), s) / kCells + 1) return false;
      } else if (link_of(end, s) || in(begin.device, s) != in(end.device, s) ||
                 in(begin.host, s) != in(end.host, s)) {
        return false;
      }
    }
    return true;
  }
  static TimeNs left_of(const State& state, std::size_t storage) {
    const auto link = link_of(state, storage);
    return link ? state.lane[index_of(*link)].left : 0;
  }

  // --- the search ---

  struct Entry {
    TimeNs estimate, time;
    std::uint32_t index;
    bool operator<(const Entry& other) const {
      return estimate != other.estimate ? estimate > other.estimate : time < other.time;
    }
  };

  void from(const State& begin) {
    known_.clear();
    states_.clear();
    steps_.clear();
    times_.clear();
    queue_ = {};
    reach(begin, 0, {});
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      if (entry.time > times_[entry.index]) continue;
      const State state = states_[entry.index];
      if (returns(begin, state)) {
        limit_ = entry.time;
        const std::vector<Noted> deeds = deeds_up_to(entry.index);
        best_ = {entry.time,
                 searched_,
                 {plan_of(problem_, ops_, begin, deeds, true),
                  plan_of(problem_, ops_, begin, deeds, false)}};
        return;
      }
      if (++searched_ > most_states_) throw std::length_error("too many states");
      expand(state, entry.time, entry.index);
    }
  }

  void reach(const State& state, TimeNs time, const Step& step) {
    TimeNs rest = later_[state.op];
    if (state.running != kNone)
      rest += state.compute_left - (is_first(state) ? duration(state) : 0);
    if (time + rest >= limit_) return;
    const auto [place, is_new] =
        known_.try_emplace(state, static_cast<std::uint32_t>(states_.size()));
    if (is_new) {
      states_.push_back(state);
      steps_.push_back(step);
      times_.push_back(time);
    } else if (time < times_[place->second]) {
      steps_[place->second] = step;
      times_[place->second] = time;
    } else {
      return;
    }
    queue_.push({time + rest, time, place->second});
  }

  void expand(const State& state, TimeNs time, std::uint32_t index) {
    pass_time(state, time, index);
    if (state.running == kNone && state.op < ops_.size()) {
      begin_op(state, time, index);
      for (std::size_t op = 0; op < state.op; ++op) {
        begin_recomputation(state, time, index, static_cast<std::uint8_t>(op));
      }
    }
    for (std::size_t i = 0; i < count_; ++i) {
      const auto s = static_cast<std::uint8_t>(i);
      begin_copies(state, time, index, s);
      give_up(state, time, index, s);
    }
  }

  void pass_time(State state, TimeNs time, std::uint32_t index) {
    TimeNs least = state.running != kNone ? state.compute_left : limit_;
    for (const Lane& lane : state.lane) {
      if (lane.storage != kNone) least = std::min(least, lane.left);
    }
    if (least >= limit_) return;
    for (const LinkKind link : kLinks) {
      Lane& lane = state.lane[index_of(link)];
      if (lane.storage != kNone && (lane.left -= least) == 0) end_copy(state, link);
    }
    if (state.running != kNone && (state.compute_left -= least) == 0 && !end_run(state)) return;
    reach(state, time + least, {index, Deed::kTime});
  }

  // --- computing ---

  [[nodiscard]] bool is_first(const State& state) const { return state.running == state.op; }
  [[nodiscard]] TimeNs duration(const State& state) const { return ops_[state.running].duration; }

  void begin_op(State state, TimeNs time, std::uint32_t index) {
    const OpFacts& op = ops_[state.op];
    state.ghost = 0;
    if ((op.reads & ~state.device) != 0) return;
    for (const Lane& lane : state.lane) {  // what is written while it is copied: for nothing
      if (lane.storage != kNone && in(op.writes, lane.storage)) return;
    }
    if ((op.writes & (state.half_out | state.half_in)) != 0) return;
    state.host = static_cast<Mask>(state.host & ~op.writes);
    state.disk = static_cast<Mask>(state.disk & ~op.writes);
    state.device |= op.creates;
    state.running = state.op;
    state.compute_left = op.duration;
    if (device_used(state) > budget(Tier::kDevice)) return;
    reach(state, time, {index, Deed::kOp, state.op});
  }

  // Dropped storages that it makes come back. The others only serve ops that run again.
  void begin_recomputation(State state, TimeNs time, std::uint32_t index, std::uint8_t which) {
    const OpFacts& op = ops_[which];
    if (!op.recomputable || (op.reads & ~(state.device | state.ghost)) != 0) return;
    for (std::size_t later = which; later < state.op; ++later) {
      if ((ops_[later].writes & op.reads) != 0) return;
      if (later > which && (ops_[later].writes & op.creates) != 0) return;
    }
    if ((op.creates & ~(state.device | state.ghost)) == 0) return;
    const Mask away = dropped(state, op.creates);
    const auto made = static_cast<Mask>(op.creates & ~away & ~state.device);
    // Twice in memory where it is here: thrown away.
    extra_ = bytes_of(static_cast<Mask>(op.creates & (state.device | state.ghost)));
    state.device |= away;
    state.ghost |= made;
    state.running = which;
    state.compute_left = op.duration;
    const bool fits = device_used(state) + extra_ <= budget(Tier::kDevice);
    if (fits) reach(state, time, {index, Deed::kRecompute, which});
  }
  [[nodiscard]] Mask dropped(const State& state, Mask of) const {
    Mask anywhere = state.device | state.host | state.disk | state.half_in | state.half_out;
    for (const Lane& lane : state.lane) {
      if (lane.storage != kNone) anywhere |= bit(lane.storage);
    }
    return static_cast<Mask>(of & alive(state) & ~anywhere);
  }
  /// Before op `state.op`, with nothing running.
  [[nodiscard]] Mask alive(const State& state) const {
    Mask alive = lives_on_;
    for (std::size_t op = 0; op < state.op; ++op) {
      alive = static_cast<Mask>((alive | ops_[op].creates) & ~ops_[op].frees);
    }
    return alive;
  }

  /// False if what dies is still being copied: for nothing.
  bool end_run(State& state) const {
    if (is_first(state)) {
      const Mask gone = ops_[state.op].frees;
      for (const Lane& lane : state.lane) {
        if (lane.storage != kNone && in(gone, lane.storage)) return false;
      }
      if ((gone & (state.half_in | state.half_out)) != 0) return false;
      state.device = static_cast<Mask>(state.device & ~gone);
      state.host = static_cast<Mask>(state.host & ~gone);
      state.disk = static_cast<Mask>(state.disk & ~gone);
      ++state.op;
    }
    state.running = kNone;
    return true;
  }

  // --- copies ---

  void begin_copies(const State& state, TimeNs time, std::uint32_t index, std::uint8_t s) {
    if (link_of(state, s) && !in(state.half_in | state.half_out, s)) return;
    const bool busy = is_created_now(state, s) || dies(state, s);
    const bool here = in(state.device, s);
    if (in(state.half_out, s)) return start(state, time, index, s, LinkKind::kHostToDisk, kThrough);
    if (in(state.half_in, s))
      return start(state, time, index, s, LinkKind::kHostToDevice, kThrough);
    if (busy || !is_used_again(state, s)) return;
    if (here && !in(state.host | state.disk, s) && may_be_sent(state, s)) {
      start(state, time, index, s, LinkKind::kDeviceToHost, kPlain);
      if (has_disk_) start(state, time, index, s, LinkKind::kDeviceToHost, kThrough);
    }
    if (!here && in(state.host, s)) {
      start(state, time, index, s, LinkKind::kHostToDevice, kPlain);
    } else if (!here && in(state.disk, s)) {
      start(state, time, index, s, LinkKind::kDiskToHost, kThrough);
    }
    if (has_disk_ && in(state.host, s) && !in(state.disk, s) && !is_written_now(state, s)) {
      start(state, time, index, s, LinkKind::kHostToDisk, kPlain);
    }
  }

  /// A plan sends off what is there before an op that does not use it; the copy may begin later.
  [[nodiscard]] bool may_be_sent(const State& state, std::size_t s) const {
    for (std::size_t op = state.op;; --op) {
      if (op == ops_.size() || !in(ops_[op].reads | ops_[op].creates, s)) return true;
      if (in(ops_[op].writes | ops_[op].creates, s)) return false;
      if (op == 0) return true;  // at the end of the step before
    }
  }

  void start(State state, TimeNs time, std::uint32_t index, std::uint8_t s, LinkKind link,
             std::uint8_t kind) {
    Lane& lane = state.lane[index_of(link)];
    if (lane.storage != kNone || !problem_.machine.link(link)) return;
    lane.storage = s;
    lane.kind = kind;
    lane.left = copy_ns(link, s);
    state.half_in = static_cast<Mask>(state.half_in & ~bit(s));
    state.half_out = static_cast<Mask>(state.half_out & ~bit(s));
    for (const Tier tier : kTiers) {
      if (used(state, tier) > budget(tier)) return;
    }
    const bool inwards = link == LinkKind::kDiskToHost || link == LinkKind::kHostToDevice;
    const Deed deed = inwards                           ? Deed::kIn
                      : link == LinkKind::kDeviceToHost ? Deed::kOut
                                                        : Deed::kDemote;
    const Step step{index, deed, s, kind};
    if (lane.left == 0) end_copy(state, link);
    reach(state, time, step);
  }

  static void end_copy(State& state, LinkKind link) {
    Lane& lane = state.lane[index_of(link)];
    const Mask mine = bit(lane.storage);
    const bool through = lane.kind == kThrough;
    lane = {};
    if (link == LinkKind::kDeviceToHost) (through ? state.half_out : state.host) |= mine;
    if (link == LinkKind::kHostToDisk) state.disk |= mine;
    if (link == LinkKind::kDiskToHost) state.half_in |= mine;
    if (link == LinkKind::kHostToDevice) state.device |= mine;
  }

  void give_up(const State& state, TimeNs time, std::uint32_t index, std::uint8_t s) {
    if (link_of(state, s) || in(state.half_in | state.half_out, s)) return;
    if (in(state.ghost, s) && state.running == kNone) {
      State next = state;
      next.ghost = static_cast<Mask>(next.ghost & ~bit(s));
      reach(next, time, {index, Deed::kTime});
    }
    const bool runs = state.running != kNone;
    if (runs && in(ops_[state.running].reads | ops_[state.running].creates, s)) return;
    const bool here = in(state.device, s);
    const bool on_host = in(state.host, s);
    const bool on_disk = in(state.disk, s);
    if (here && (on_host || on_disk)) {
      State next = state;
      next.device = static_cast<Mask>(next.device & ~bit(s));
      reach(next, time, {index, Deed::kLeave, s});
    }
    if (on_host && (here || on_disk) && host_is_tight_) {
      State next = state;
      next.host = static_cast<Mask>(next.host & ~bit(s));
      reach(next, time, {index, Deed::kForget, s});
    }
    if (!in(lives_on_, s) && (here || on_host || on_disk) &&
        (!an_op_uses(state, s) || can_be_made(state, s))) {
      State next = state;
      next.device = static_cast<Mask>(next.device & ~bit(s));
      next.host = static_cast<Mask>(next.host & ~bit(s));
      next.disk = static_cast<Mask>(next.disk & ~bit(s));
      reach(next, time, {index, Deed::kDrop, s});
    }
  }
  [[nodiscard]] bool can_be_made(const State& state, std::size_t s) const {
    for (std::size_t op = 0; op < state.op; ++op) {
      if (in(ops_[op].creates, s)) return ops_[op].recomputable;
    }
    return false;
  }
  [[nodiscard]] bool is_created_now(const State& state, std::size_t s) const {
    return state.running != kNone && in(ops_[state.running].creates, s);
  }
  [[nodiscard]] bool is_written_now(const State& state, std::size_t s) const {
    return state.running != kNone && is_first(state) && in(ops_[state.running].writes, s);
  }
  [[nodiscard]] bool dies(const State& state, std::size_t s) const {
    return state.running != kNone && is_first(state) && in(ops_[state.running].frees, s);
  }
  /// By an op that has not begun; what runs again before it may read anything alive.
  [[nodiscard]] bool is_used_again(const State& state, std::size_t s) const {
    if (in(lives_on_, s) || an_op_uses(state, s)) return true;
    for (std::size_t op = 0; op < state.op; ++op) {
      if (ops_[op].recomputable && in(ops_[op].reads, s) && in(alive(state), s)) return true;
    }
    return false;
  }
  [[nodiscard]] bool an_op_uses(const State& state, std::size_t s) const {
    const std::size_t begun = state.running != kNone && is_first(state) ? 1 : 0;
    for (std::size_t op = state.op + begun; op < ops_.size(); ++op) {
      if (in(ops_[op].reads, s)) return true;
      if (in(ops_[op].frees, s)) break;
    }
    return false;
  }

  // --- room ---

  [[nodiscard]] std::uint64_t device_used(const State& state) const {
    Mask here = state.device | state.half_in;
    for (const LinkKind link : {LinkKind::kDiskToHost, LinkKind::kHostToDevice}) {
      const Lane& lane = state.lane[index_of(link)];
      if (lane.storage != kNone) here |= bit(lane.storage);
    }
    const std::uint64_t workspace = state.running == kNone ? 0 : ops_[state.running].workspace;
    return bytes_of(here) + bytes_of(static_cast<Mask>(state.ghost & ~here)) + workspace;
  }
  [[nodiscard]] std::uint64_t used(const State& state, Tier tier) const {
    if (tier == Tier::kDevice) return device_used(state);
    Mask there = tier == Tier::kHost ? state.host : state.disk;
    const Lane& out = state.lane[index_of(LinkKind::kDeviceToHost)];
    const Lane& on = state.lane[index_of(LinkKind::kHostToDisk)];
    if (tier == Tier::kHost && out.storage != kNone && out.kind == kPlain)
      there |= bit(out.storage);
    if (tier == Tier::kDisk && on.storage != kNone) there |= bit(on.storage);
    return bytes_of(there);
  }
  [[nodiscard]] Mask all() const { return static_cast<Mask>((1U << count_) - 1); }
  [[nodiscard]] std::uint64_t bytes_of(Mask mask) const {
    std::uint64_t sum = 0;
    for (std::size_t s = 0; s < count_; ++s) sum += in(mask, s) ? bytes_[s] : 0;
    return sum;
  }
  [[nodiscard]] std::uint64_t budget(Tier tier) const { return problem_.budgets[tier].count; }
  [[nodiscard]] TimeNs copy_ns(LinkKind link, std::size_t s) const {
    return copy_time(*problem_.machine.link(link), Bytes{bytes_[s]});
  }

  // --- the plan ---

  [[nodiscard]] std::vector<Noted> deeds_up_to(std::uint32_t index) const {
    std::vector<Noted> deeds;
    for (std::uint32_t at = index; at != 0; at = steps_[at].from) {
      const Step& step = steps_[at];
      const State& before = states_[step.from];
      deeds.push_back({step.deed, step.what, step.kind, before.op,
                       before.running != kNone && is_first(before)});
    }
    std::reverse(deeds.begin(), deeds.end());
    return deeds;
  }

  const Problem& problem_;
  TimeNs limit_;
  std::size_t most_states_;
  std::size_t count_ = 0;
  std::vector<OpFacts> ops_;
  std::vector<TimeNs> later_;  // of the ops from one on
  std::vector<std::uint64_t> bytes_;
  Mask lives_on_ = 0;
  bool host_is_tight_ = false;
  bool has_disk_ = false;
  std::uint64_t extra_ = 0;

  std::unordered_map<State, std::uint32_t, Hash> known_;
  std::vector<State> states_;
  std::vector<Step> steps_;
  std::vector<TimeNs> times_;
  std::priority_queue<Entry> queue_;
  std::size_t searched_ = 0;
  std::optional<ExactStep> best_;
};

}  // namespace

std::optional<ExactStep> best_of(const Problem& problem, TimeNs limit, std::size_t most_states) {
  return Search(problem, limit, most_states).best();
}

}  // namespace spillway::planning::exact

namespace spillway::planning {

std::optional<ExactStep> exact_step(const Problem& problem, TimeNs limit, std::size_t most_states) {
  return exact::best_of(problem, limit, most_states);
}

}  // namespace spillway::planning
