// SPDX-License-Identifier: Apache-2.0
#include "bound/state_graph.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace spillway::planning::bound {
namespace {

// Two bits each in a state of 64.
constexpr std::size_t kMostTracked = 32;
// With fewer there is nothing that the prices of single gaps do not say.
constexpr std::size_t kFewestTracked = 2;
// Jobs of one slot of which the set that takes longest one after the other is looked for.
constexpr std::size_t kMostJobs = 8;

Place place_of(std::uint64_t state, std::size_t i) {
  return static_cast<Place>((state >> (2 * i)) & 3U);
}
std::uint64_t with(std::uint64_t state, std::size_t i, Place place) {
  return state | (static_cast<std::uint64_t>(place) << (2 * i));
}
bool is_in(Place place) { return place == Place::kIn || place == Place::kInWithCopy; }

// One thing that a slot must hold whole: a copy, or a run of an op.
struct Job {
  enum class Kind : std::uint8_t { kIn, kOut, kRun } kind;
  double ns;
  std::uint64_t holds;  // bytes on the device while it lasts, beside what stays all the time
  std::uint64_t mask;   // of the tracked storages among them
  std::uint64_t reads;  // a run: what must have come before
};

}  // namespace

// One way through one slot, as far as it is decided.
struct StateGraph::Change {
  State to = 0;
  std::vector<Copy> copies;       // of those that arrive or leave by one
  std::vector<std::size_t> made;  // tracked storages that are made again in it
  std::uint64_t made_mask = 0;
  std::uint64_t fetched = 0;  // for a recomputation alone
};

class StateGraph::Builder {
 public:
  Builder(StateGraph& graph, std::size_t most) : graph_(graph), most_(most) {}

  bool build() {
    const std::size_t instants = graph_.instants();
    graph_.states_.assign(instants, {});
    graph_.transitions_.clear();
    graph_.copies_.clear();
    graph_.first_of_.assign(instants + 1, 0);
    slot_ = 0;
    begin(0, 0, room(0));
    for (slot_ = 0; slot_ + 1 < instants; ++slot_) {
      graph_.first_of_[slot_] = graph_.transitions_.size();
      index_.clear();
      for (std::size_t i = 0; i < graph_.states_[slot_].size(); ++i) {
        from_ = graph_.states_[slot_][i];
        from_index_ = static_cast<std::uint32_t>(i);
        change_ = {};
        choose(0, room(slot_ + 1));
        if (graph_.transitions_.size() > most_) return false;
      }
    }
    graph_.first_of_[instants - 1] = graph_.first_of_[instants] = graph_.transitions_.size();
    return true;
  }

 private:
  [[nodiscard]] Row op() const { return static_cast<Row>(slot_ / 2); }
  [[nodiscard]] bool waits() const { return slot_ % 2 == 1; }
  [[nodiscard]] const Moment& now(std::size_t i) const { return graph_.tracked_[i].at[slot_]; }
  [[nodiscard]] const Moment& then(std::size_t i) const { return graph_.tracked_[i].at[slot_ + 1]; }

  // Bytes beside what the op of an instant needs.
  [[nodiscard]] std::uint64_t room(std::size_t instant) const {
    const std::uint64_t need = graph_.view_.working_set(static_cast<Row>(instant / 2));
    return graph_.boundary_.capacity > need ? graph_.boundary_.capacity - need : 0;
  }

  // A storage that lives on may be anywhere when the step begins, with a copy from the step before.
  void begin(std::size_t i, State state, std::uint64_t left) {
    if (i == graph_.tracked_.size()) {
      graph_.states_[0].push_back(state);
      return;
    }
    const Tracked& tracked = graph_.tracked_[i];
    const Moment& moment = tracked.at[0];
    if (!moment.active) return begin(i + 1, state, left);
    const bool lives_on = graph_.view_.model->table.predecessor(tracked.storage) != kNoRow;
    const std::uint64_t takes = moment.touched ? 0 : tracked.bytes;
    if (takes <= left) {
      begin(i + 1, with(state, i, lives_on ? Place::kInWithCopy : Place::kIn), left - takes);
    }
    if (lives_on && !moment.touched) begin(i + 1, with(state, i, Place::kAway), left);
  }

  // Storages from `i` on.
  void choose(std::size_t i, std::uint64_t left) {
    if (graph_.transitions_.size() > most_) return;
    if (i == graph_.tracked_.size()) return settle(0);
    if (!then(i).active) return choose(i + 1, left);
    const Tracked& tracked = graph_.tracked_[i];
    const State before = change_.to;
    const auto go = [&](Place place) {
      const std::uint64_t takes = is_in(place) && !then(i).touched ? tracked.bytes : 0;
      if (takes > left) return;
      change_.to = with(before, i, place);
      choose(i + 1, left - takes);
      change_.to = before;
    };
    if (!now(i).active) return go(Place::kIn);  // just created
    const Place place = place_of(from_, i);
    const Row next_chance = op() + (waits() ? 2 : 1);
    if (!waits() && now(i).touched) {
      return go(then(i).written == static_cast<Position>(slot_ + 1) ? Place::kIn : place);
    }
    const bool must_be_in = then(i).touched;
    const auto by_copy = [&](Place to, bool out) {
      change_.copies.push_back({static_cast<std::uint32_t>(i), out});
      go(to);
      change_.copies.pop_back();
    };
    const auto made_again = [&](Place to) {
      if (!waits() || !may_be_made(i)) return;
      change_.made.push_back(i);
      go(to);
      change_.made.pop_back();
    };
    switch (place) {
      case Place::kIn:
        go(Place::kIn);
        if (must_be_in) break;
        by_copy(Place::kAway, true);
        if (tracked.made_by != kNoRow && next_chance <= tracked.may_be_made) go(Place::kNowhere);
        break;
      case Place::kInWithCopy:
        go(Place::kInWithCopy);
        if (!must_be_in) go(Place::kAway);
        break;
      case Place::kAway:
        if (!must_be_in) go(Place::kAway);
        by_copy(Place::kInWithCopy, false);
        made_again(Place::kInWithCopy);
        break;
      case Place::kNowhere:
        if (!must_be_in) go(Place::kNowhere);
        made_again(Place::kIn);
        break;
    }
  }

  [[nodiscard]] bool may_be_made(std::size_t i) const {
    const Tracked& tracked = graph_.tracked_[i];
    return tracked.made_by != kNoRow && op() + 1 <= tracked.may_be_made;
  }

  // The input of recomputations from `k` on is there, comes, or is made again in its turn.
  void settle(std::size_t k) {
    if (graph_.transitions_.size() > most_) return;
    if (k == change_.made.size()) return finish();
    read(k, 0);
  }

  void read(std::size_t k, std::size_t i) {
    const std::size_t count = graph_.tracked_.size();
    const std::uint64_t inputs = inputs_of(graph_.tracked_[change_.made[k]].made_by);
    while (i < count && ((inputs >> i & 1U) == 0 || there(i))) ++i;
    if (i == count) return settle(k + 1);
    const bool has_copy = now(i).active && place_of(from_, i) == Place::kAway;
    const bool dead = graph_.tracked_[i].freed <= op();
    // A storage that is not used again may lie anywhere, and costs nothing.
    if (!now(i).active && !dead) return read(k, i + 1);
    if (has_copy) {
      change_.fetched |= std::uint64_t{1} << i;
      read(k, i + 1);
      change_.fetched &= ~(std::uint64_t{1} << i);
    }
    if (graph_.tracked_[i].made_by == kNoRow) {
      if (!has_copy) read(k, i + 1);
      return;
    }
    if (has_copy && !may_be_made(i)) return;
    change_.made.push_back(i);
    read(k, i + 1);
    change_.made.pop_back();
  }

  [[nodiscard]] bool there(std::size_t i) const {
    if (now(i).active && is_in(place_of(from_, i))) return true;
    if (then(i).active && is_in(place_of(change_.to, i))) return true;
    if ((change_.fetched >> i & 1U) != 0) return true;
    return std::find(change_.made.begin(), change_.made.end(), i) != change_.made.end();
  }

  template <typename Wanted>
  [[nodiscard]] std::uint64_t tracked_of(Row op, const Wanted& wanted) const {
    const AccessTable& table = graph_.view_.model->table;
    std::uint64_t mask = 0;
    for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
      if (!wanted(table.touch(row))) continue;
      for (std::size_t i = 0; i < graph_.tracked_.size(); ++i) {
        if (graph_.tracked_[i].storage == table.touch(row).storage) mask |= std::uint64_t{1} << i;
      }
    }
    return mask;
  }
  [[nodiscard]] std::uint64_t inputs_of(Row op) const {
    return tracked_of(op, [](const Touch& touch) { return !touch.creates; });
  }

  void finish() {
    Transition transition{.from = from_index_, .to = 0};
    transition.first_copy = static_cast<std::uint32_t>(graph_.copies_.size());
    std::vector<Job> jobs;
    std::uint64_t read = 0;
    for (const std::size_t i : change_.made) read |= inputs_of(graph_.tracked_[i].made_by);
    for (const Copy& copy : change_.copies) {
      const std::size_t i = copy.tracked;
      const auto here = static_cast<Position>(slot_);
      const bool forced = waits() && (copy.out ? now(i).written == here
                                               : now(i).used == here || (read >> i & 1U) != 0);
      if (forced) {
        add_copy(i, copy.out, transition, jobs);
      } else {
        graph_.copies_.push_back(copy);
      }
    }
    transition.last_copy = static_cast<std::uint32_t>(graph_.copies_.size());
    for (std::size_t i = 0; i < graph_.tracked_.size(); ++i) {
      if ((change_.fetched >> i & 1U) != 0) add_copy(i, false, transition, jobs);
    }
    if (waits()) transition.waits = waiting(jobs, transition.runs);
    transition.to = index_of_state(change_.to);
    graph_.transitions_.push_back(transition);
  }

  void add_copy(std::size_t i, bool out, Transition& transition, std::vector<Job>& jobs) const {
    const Tracked& tracked = graph_.tracked_[i];
    const double ns = out ? tracked.out : tracked.in;
    (out ? transition.out : transition.in) += ns;
    jobs.push_back(
        {out ? Job::Kind::kOut : Job::Kind::kIn, ns, tracked.bytes, std::uint64_t{1} << i, 0});
  }

  // The least time for all jobs, and the sum of the `runs` among them: those of which no two can be
  // done at once take turns.
  double waiting(std::vector<Job>& jobs, double& runs) const {
    const StepModel& model = *graph_.view_.model;
    std::vector<Row> ops;
    for (const std::size_t i : change_.made) ops.push_back(graph_.tracked_[i].made_by);
    std::sort(ops.begin(), ops.end());
    ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
    for (const Row op : ops) {
      const std::uint64_t touched = tracked_of(op, [](const Touch&) { return true; });
      const auto ns = static_cast<double>(model.least_duration[op]);
      runs += ns;
      jobs.push_back({Job::Kind::kRun, ns, model.table.working_set(op) - model.table.workspace(op),
                      touched, inputs_of(op)});
    }
    if (jobs.empty()) return 0;
    if (jobs.size() > kMostJobs) {
      std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.ns > b.ns; });
      jobs.resize(kMostJobs);
    }
    std::uint64_t stay = 0;
    double back = kNever;  // for one of those that stay to leave and come back
    double in = 0;
    for (const Job& job : jobs) in += job.kind == Job::Kind::kIn ? job.ns : 0;
    for (std::size_t i = 0; i < graph_.tracked_.size(); ++i) {
      if (!now(i).active || !then(i).active || !is_in(place_of(from_, i)) ||
          !is_in(place_of(change_.to, i)))
        continue;
      stay |= std::uint64_t{1} << i;
      back = std::min(back, in + graph_.tracked_[i].in);
      if (!may_be_made(i)) continue;
      const Row again = graph_.tracked_[i].made_by;
      const bool runs_anyway = std::find(ops.begin(), ops.end(), again) != ops.end();
      const double more = runs_anyway ? 0 : static_cast<double>(model.least_duration[again]);
      back = std::min(back, runs + more);
    }
    const double all_stay = turns(jobs, stay);
    if (back >= all_stay) return all_stay;
    return std::max(turns(jobs, 0), back);
  }

  // The longest sum over jobs of which no two can be done at once while `stay` is on the device.
  [[nodiscard]] double turns(const std::vector<Job>& jobs, std::uint64_t stay) const {
    std::array<std::uint32_t, kMostJobs> against{};
    for (std::size_t a = 0; a < jobs.size(); ++a) {
      for (std::size_t b = 0; b < jobs.size(); ++b) {
        if (a != b && exclude(jobs[a], jobs[b], stay)) against[a] |= std::uint32_t{1} << b;
      }
    }
    double most = 0;
    for (std::uint32_t set = 1; set < std::uint32_t{1} << jobs.size(); ++set) {
      double sum = 0;
      bool in_turns = true;
      for (std::size_t a = 0; a < jobs.size() && in_turns; ++a) {
        if ((set >> a & 1U) == 0) continue;
        sum += jobs[a].ns;
        in_turns = (set & ~against[a] & ~(std::uint32_t{1} << a)) == 0;
      }
      if (in_turns) most = std::max(most, sum);
    }
    return most;
  }

  [[nodiscard]] bool exclude(const Job& a, const Job& b, std::uint64_t stay) const {
    if (a.kind == b.kind) return true;
    if ((a.reads & b.mask) != 0 && b.kind == Job::Kind::kIn) return true;
    if ((b.reads & a.mask) != 0 && a.kind == Job::Kind::kIn) return true;
    const Job& run = b.kind == Job::Kind::kRun ? b : a;
    const Job& other = b.kind == Job::Kind::kRun ? a : b;
    std::uint64_t bytes = run.holds + ((run.mask & other.mask) != 0 ? 0 : other.holds);
    for (std::size_t i = 0; i < graph_.tracked_.size(); ++i) {
      const std::uint64_t bit = std::uint64_t{1} << i;
      if ((stay & bit) != 0 && ((run.mask | other.mask) & bit) == 0) {
        bytes += graph_.tracked_[i].bytes;
      }
    }
    return bytes > graph_.boundary_.capacity;
  }

  std::uint32_t index_of_state(State state) {
    auto& states = graph_.states_[slot_ + 1];
    const auto [entry, fresh] =
        index_.try_emplace(state, static_cast<std::uint32_t>(states.size()));
    if (fresh) states.push_back(state);
    return entry->second;
  }

  StateGraph& graph_;
  std::size_t most_;
  std::size_t slot_ = 0;
  State from_ = 0;
  std::uint32_t from_index_ = 0;
  Change change_;
  std::unordered_map<State, std::uint32_t> index_;
};

StateGraph::StateGraph(const CyclicView& view, const Boundary& boundary,
                       std::size_t most_transitions)
    : view_(view), boundary_(boundary) {
  for (std::size_t most = kMostTracked; most >= kFewestTracked; most -= most > 8 ? 4 : 1) {
    track(most);
    if (tracked_.size() < kFewestTracked) return;
    if (Builder(*this, most_transitions).build()) {
      usable_ = true;
      return;
    }
    most = std::min(most, tracked_.size());
  }
}

void StateGraph::track(std::size_t most) {
  const AccessTable& table = view_.model->table;
  std::vector<Row> storages;
  for (Row s = 0; s < table.storages(); ++s) {
    if (table.first_touch(s) != kNoRow) storages.push_back(s);
  }
  std::stable_sort(storages.begin(), storages.end(),
                   [&](Row a, Row b) { return table.bytes(a) > table.bytes(b); });
  // A storage of a hundredth of the largest makes no room to speak of.
  while (!storages.empty() && (storages.size() > most || table.bytes(storages.back()) <
                                                             table.bytes(storages.front()) / 100)) {
    storages.pop_back();
  }
  std::sort(storages.begin(), storages.end());
  tracked_.clear();
  for (const Row s : storages) tracked_.push_back(describe(s));
}

StateGraph::Tracked StateGraph::describe(Row s) const {
  const StepModel& model = *view_.model;
  const AccessTable& table = model.table;
  Tracked tracked;
  tracked.storage = s;
  tracked.bytes = table.bytes(s);
  // No copy is shorter than its time to the nanosecond.
  tracked.in = std::max(0.0, model.copy_ns(boundary_.in, tracked.bytes) - 0.5);
  tracked.out = std::max(0.0, model.copy_ns(boundary_.out, tracked.bytes) - 0.5);
  tracked.made_by = model.recompute_op[s];
  tracked.may_be_made = model.chain_until[s];
  tracked.freed = table.freed_by(s);
  tracked.at.resize(instants());
  const Row creator = table.creator(s);
  Row last = kNoRow;                // touch up to the instant
  Row next = table.first_touch(s);  // touch from it on
  Position written = -1;
  for (std::size_t instant = 0; instant < instants(); ++instant) {
    const Row op = static_cast<Row>(instant / 2);
    const bool ends = instant % 2 == 1;
    if (ends && next != kNoRow && table.op_of(next) == op) {
      if (table.touch(next).writes) written = static_cast<Position>(instant);
      last = next;
      next = table.next_touch(next);
    }
    Moment& moment = tracked.at[instant];
    const Position use = next != kNoRow   ? static_cast<Position>(table.op_of(next))
                         : last != kNoRow ? view_.next[last]
                                          : kNeverAgain;
    const bool alive = creator == kNoRow || creator < op || (ends && creator == op);
    moment.active = alive && use != kNeverAgain;
    moment.touched = (next != kNoRow && table.op_of(next) == op) ||
                     (ends && last != kNoRow && table.op_of(last) == op);
    moment.used = use == kNeverAgain ? 0 : 2 * use - 1;
    moment.written = written;
  }
  return tracked;
}

}  // namespace spillway::planning::bound
