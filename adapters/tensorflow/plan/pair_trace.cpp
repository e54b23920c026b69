// SPDX-License-Identifier: Apache-2.0
#include "pair_trace.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "spillway/planning/analysis/access_table.hpp"

namespace spillway::tf {
namespace {

constexpr Bytes kOrder{1};  // of the storage that every op writes that may not run again

using Places = std::unordered_map<std::string_view, std::size_t>;

Places find_places(const RunProfile& run) {
  Places places;
  for (std::size_t i = 0; i < run.ops.size(); ++i) places.emplace(run.ops[i].node, i);
  return places;
}

// The life of a pair's tensor in the run.
struct Life {
  std::size_t pair = 0;
  std::size_t made = 0;
  std::size_t last = 0;
  Bytes bytes{};
  std::vector<std::pair<std::size_t, std::size_t>> held;  // from op to op: it cannot leave
  std::vector<std::pair<std::size_t, std::size_t>> in_memory;
};

class Builder {
 public:
  Builder(const RunProfile& run, const PairedGraph& graph)
      : run_(run), graph_(graph), places_(find_places(run)), readers_(graph.pairs.size()) {
    for (const PairName& pair : graph.pairs) {
      for (const std::size_t source : pair.sources) readers_[source].push_back(pair.node);
    }
  }

  PairTrace build() {
    std::uint64_t hole = graph_.first_hole;
    std::vector<Life> lives;
    for (std::size_t i = 0; i < graph_.pairs.size(); ++i) {
      const std::size_t holes = graph_.pairs[i].holes.size();
      if (auto life = life_of(i, hole)) lives.push_back(std::move(*life));
      hole += holes;
    }
    add_ops(lives, find_twins(lives));
    find_partitions();
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::optional<std::size_t> place_of(const std::string& node) const {
    const auto found = places_.find(node);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }

  // First and last of those that ran.
  [[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> span_of(
      const std::vector<std::string>& nodes) const {
    std::optional<std::pair<std::size_t, std::size_t>> span;
    for (const std::string& node : nodes) {
      const auto place = place_of(node);
      if (!place) continue;
      if (!span) span = {*place, *place};
      span = {std::min(span->first, *place), std::max(span->second, *place)};
    }
    return span;
  }

  std::optional<Life> life_of(std::size_t number, std::uint64_t first_hole) {
    const PairName& pair = graph_.pairs[number];
    const auto made = place_of(pair.node);
    if (pair.in_loop || !made) return std::nullopt;
    Life life{
        .pair = number, .made = *made, .last = *made, .bytes = {}, .held = {}, .in_memory = {}};
    find_stays(life, first_hole, pair.holes.size());
    if (life.bytes.count == 0) return std::nullopt;
    const StorageId storage{result_.trace.storages.size()};
    std::vector<PlannedWait> waits;
    std::vector<std::uint64_t> short_holes;
    if (const auto early = span_of(pair.early)) hold_until(life, early->second);
    if (const auto readers = span_of(readers_[number])) hold_until(life, readers->second);
    for (std::size_t i = 0; i < pair.holes.size(); ++i) {
      if (pair.holes[i].gate) continue;
      const auto users = span_of(pair.holes[i].users);
      if (!users) return std::nullopt;
      if (users->first > life.last + 1) {
        waits.push_back({.hole = first_hole + i,
                         .storage = storage,
                         .before = life.last,
                         .after = users->first,
                         .pair = number,
                         .index = i});
        life.held.emplace_back(users->first, users->first);
        life.last = users->first;
      } else {
        short_holes.push_back(first_hole + i);
      }
      hold_until(life, users->second);
    }
    result_.trace.add(
        TraceStorage{.bytes = life.bytes, .role = StorageRole::kActivation, .name = pair.tensor});
    std::ranges::copy(waits, std::back_inserter(result_.waits));
    std::ranges::copy(short_holes, std::back_inserter(result_.short_holes));
    return life;
  }

  static void hold_until(Life& life, std::size_t op) {
    if (op <= life.last) return;
    life.held.emplace_back(life.last, op);
    life.last = op;
  }

  void find_stays(Life& life, std::uint64_t first_hole, std::size_t holes) const {
    for (const ProfiledStay& stay : run_.stays) {
      if (stay.hole < first_hole || stay.hole >= first_hole + holes) continue;
      life.bytes = std::max(life.bytes, stay.bytes);
      life.in_memory.emplace_back(stay.back ? stay.from : life.made, stay.to);
    }
  }

  // The lives whose op may run again, by the place of the op.
  [[nodiscard]] std::map<std::size_t, std::size_t> find_twins(const std::vector<Life>& lives) {
    std::map<std::size_t, std::size_t> life_at;  // of pairs
    for (std::size_t i = 0; i < lives.size(); ++i) life_at[lives[i].pair] = i;
    std::map<std::size_t, std::size_t> made;  // places of ops to how many lives begin there
    for (const Life& life : lives) ++made[life.made];
    std::map<std::size_t, std::size_t> twins;
    for (std::size_t i = 0; i < lives.size(); ++i) {
      const PairName& pair = graph_.pairs[lives[i].pair];
      const auto waits = std::ranges::count(result_.waits, lives[i].pair, &PlannedWait::pair);
      const auto last = std::ranges::find(result_.waits, lives[i].pair, &PlannedWait::pair);
      const bool once = waits == 1 && last->index + 1 == pair.holes.size();
      const bool known = std::ranges::all_of(pair.sources, [&](std::size_t source) {
        const auto found = life_at.find(source);
        return found != life_at.end() && lives[found->second].made < lives[i].made;
      });
      if (pair.cone.empty() || !once || !known || made[lives[i].made] != 1) continue;
      twins[lives[i].made] = i;
      for (const std::size_t source : pair.sources) sources_[i].push_back(life_at[source]);
      result_.twins.push_back({.pair = lives[i].pair, .op = OpIndex{lives[i].made}});
    }
    return twins;
  }

  // The trace lacks what else passes between ops. This puts each one level above the one before. An
  // op that may run again writes nothing but what it makes.
  void keep_order(std::vector<TraceOp>& ops) {
    if (ops.size() < 2) return;
    const StorageId order = result_.trace.add(
        TraceStorage{.bytes = kOrder, .role = StorageRole::kWorkspace, .name = "order"});
    ops.front().creates.push_back(order);
    for (std::size_t i = 1; i < ops.size(); ++i) {
      if (!ops[i].recomputable) ops[i].writes.push_back(order);
    }
    ops.back().frees.push_back(order);
  }

  // Each op's time, that of a cone with the op that ends it.
  [[nodiscard]] std::vector<TimeNs> durations(const std::vector<Life>& lives,
                                              const std::map<std::size_t, std::size_t>& twins) {
    std::vector<TimeNs> durations;
    for (const ProfiledOp& op : run_.ops) durations.push_back(op.duration_ns);
    std::set<std::size_t> makers;
    for (const Life& life : lives) makers.insert(life.made);
    for (const auto& [op, life] : twins) {
      for (const std::string& node : graph_.pairs[lives[life].pair].cone) {
        const auto place = place_of(node);
        if (place && !makers.contains(*place)) durations[op] += std::exchange(durations[*place], 0);
      }
    }
    return durations;
  }

  void add_ops(const std::vector<Life>& lives, const std::map<std::size_t, std::size_t>& twins) {
    std::vector<TraceOp> ops(run_.ops.size());
    std::vector<Bytes> movable(run_.ops.size());
    for (std::size_t i = 0; i < lives.size(); ++i) {
      const Life& life = lives[i];
      const StorageId storage{i};
      ops[life.made].creates.push_back(storage);
      for (const auto& [from, to] : life.held) {
        // The one at `from` was the last use before it, or made it.
        for (std::size_t op = from == to ? from : from + 1; op <= to; ++op) {
          ops[op].reads.push_back(storage);
        }
      }
      ops[life.last].frees.push_back(storage);
      for (const auto& [from, to] : life.in_memory) {
        for (std::size_t op = from; op <= std::min(to, life.last); ++op) movable[op] += life.bytes;
      }
    }
    for (const auto& [op, life] : twins) {
      // It may write only what it makes; the first op makes the order besides.
      ops[op].recomputable = op != 0;
      for (const std::size_t source : sources_[life]) {
        if (std::ranges::find(ops[op].reads, StorageId{source}) == ops[op].reads.end()) {
          ops[op].reads.push_back(StorageId{source});
        }
      }
    }
    keep_order(ops);
    const std::vector<TimeNs> taken = durations(lives, twins);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      ops[i].name = run_.ops[i].node;
      ops[i].source = run_.ops[i].node;
      ops[i].duration_ns = std::max<TimeNs>(taken[i], 1);
      ops[i].workspace = saturating_sub(run_.ops[i].peak, movable[i]);
      result_.trace.add(ops[i]);
    }
  }

  void find_partitions() {
    if (graph_.partitions.empty()) return;
    result_.partitions.assign(run_.ops.size(), 0);
    for (std::size_t k = 0; k < graph_.partitions.size(); ++k) {
      for (const std::string& node : graph_.partitions[k]) {
        if (const auto place = place_of(node)) {
          result_.partitions[*place] = static_cast<std::uint32_t>(k);
        }
      }
    }
    std::inclusive_scan(result_.partitions.begin(), result_.partitions.end(),
                        result_.partitions.begin(), std::ranges::max);
  }

  const RunProfile& run_;
  const PairedGraph& graph_;
  const Places places_;
  std::vector<std::vector<std::string>> readers_;            // of each pair: ops that twins copy
  std::map<std::size_t, std::vector<std::size_t>> sources_;  // of a life: lives
  PairTrace result_;
};

// By time, the last place of the ops counted until then.
std::vector<std::size_t> times_of(const std::vector<std::string>& heavy, const Places& places) {
  std::vector<std::size_t> times;
  std::size_t last = 0;
  for (const std::string& node : heavy) {
    const auto found = places.find(node);
    // An op that another took in is done with that one, which is counted too.
    if (found != places.end()) last = std::max(last, found->second + 1);
    times.push_back(last);
  }
  return times;
}

}  // namespace

std::uint64_t PairedGraph::holes() const {
  std::uint64_t count = 0;
  for (const PairName& pair : pairs) count += pair.holes.size();
  return count;
}

PairTrace make_pair_trace(const RunProfile& run, const PairedGraph& graph) {
  return Builder(run, graph).build();
}

bool limit_needs(Trace& trace, Bytes most) {
  const planning::AccessTable table(trace);
  TraceOps& ops = trace.ops;
  bool limited = false;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto op = static_cast<planning::Row>(i);
    Bytes bytes{table.working_set(op) - table.workspace(op)};
    if (ops.recomputable[i] != 0) bytes += kOrder;  // it does not touch that
    if (bytes > most) return false;
    if (bytes + ops.workspace[i] <= most) continue;
    ops.workspace[i] = most - bytes;
    limited = true;
  }
  return limited;
}

namespace {

// Reads from a plan which holes of a graph leave.
class Chooser {
 public:
  Chooser(const PairTrace& step, const RunProfile& run, const PairedGraph& graph, const Plan& plan)
      : step_(step), graph_(graph) {
    const Places places = find_places(run);
    for (const auto& heavy : graph.clocks) times_.push_back(times_of(heavy, places));
    for (const PlanAction& action : plan.actions) {
      if (action.kind == PlanActionKind::kRecompute) {
        runs_again_.emplace(to_value(action.op), to_value(action.at));
      } else {
        actions_[to_value(action.storage)].push_back(&action);
      }
    }
  }

  std::vector<HoleChoice> choose() {
    for (const std::uint64_t hole : step_.short_holes) choices_[hole] = {.hole = hole};
    for (const PlannedWait& wait : step_.waits) choices_[wait.hole] = choice_of(wait);
    for (const PlannedTwin& twin : step_.twins) choose_twin(twin);
    std::uint64_t first = graph_.first_hole;
    for (const PairName& pair : graph_.pairs) {
      choose_gates(pair, first);
      first += pair.holes.size();
    }
    std::vector<HoleChoice> choices;
    for (const auto& [hole, choice] : choices_) choices.push_back(choice);
    return choices;
  }

 private:
  [[nodiscard]] std::uint64_t due_at(const PairName& pair, const HoleName& hole,
                                     std::size_t op) const {
    if (hole.latest == 0) return 0;
    const auto& clock = times_[pair.clock - graph_.first_clock];
    const auto due = std::ranges::upper_bound(clock, op) - clock.begin();
    return std::min<std::uint64_t>(hole.latest, static_cast<std::uint64_t>(due));
  }

  [[nodiscard]] HoleChoice choice_of(const PlannedWait& wait) {
    const PairName& pair = graph_.pairs[wait.pair];
    const HoleName& hole = pair.holes[wait.index];
    HoleChoice choice{.hole = wait.hole, .leaves = false, .due = hole.latest};
    for (const PlanAction* const action : actions_[to_value(wait.storage)]) {
      const std::size_t at = to_value(action->at);
      if (at <= wait.before || at > wait.after) continue;
      if (action->kind == PlanActionKind::kEvict) choice.leaves = true;
      if (action->kind == PlanActionKind::kDrop) dropped_.insert(wait.pair);
      if (action->kind != PlanActionKind::kFetch) continue;
      choice.due = due_at(pair, hole, at);
      fetched_[wait.hole] = at;
    }
    return choice;
  }

  void choose_twin(const PlannedTwin& twin) {
    const auto wait = std::ranges::find(step_.waits, twin.pair, &PlannedWait::pair);
    const auto again = runs_again_.lower_bound(to_value(twin.op));
    if (again == runs_again_.end() || again->first != to_value(twin.op)) return;
    if (!dropped_.contains(twin.pair) || again->second > wait->after) return;
    choices_[wait->hole].recomputed = true;
    choices_[wait->hole].leaves = false;
    again_[twin.pair] = again->second;
  }

  // A wait of a source may have gates before the swap-in that ends it. What leaves comes back at
  // the first that opens, and stays from there on.
  void choose_gates(const PairName& pair, std::uint64_t first) {
    std::size_t begin = 0;
    for (std::size_t end = 0; end < pair.holes.size(); ++end) {
      if (pair.holes[end].gate) continue;
      const auto own = choices_.find(first + end);
      if (own != choices_.end()) choose_gates_of_wait(pair, first, begin, own->second);
      begin = end + 1;
    }
    // Nobody keeps it for gates after its own last user.
    const bool known = begin != 0 && choices_.contains(first + begin - 1);
    for (std::size_t hole = begin; known && hole < pair.holes.size(); ++hole) {
      choices_[first + hole] = {.hole = first + hole, .due = pair.holes[hole].latest};
    }
  }

  void choose_gates_of_wait(const PairName& pair, std::uint64_t first, std::size_t begin,
                            HoleChoice& own) {
    const bool leaves = own.leaves;
    for (std::size_t hole = begin; first + hole < own.hole; ++hole) {
      const HoleName& gate = pair.holes[hole];
      HoleChoice choice{.hole = first + hole, .leaves = own.leaves, .due = gate.latest};
      if (const auto again = again_.find(*gate.gate); again != again_.end()) {
        const auto fetched = fetched_.find(own.hole);
        const bool early = own.leaves && fetched != fetched_.end();
        choice.due =
            due_at(pair, gate, early ? std::min(fetched->second, again->second) : again->second);
        own.leaves = false;
        if (leaves) own.due = pair.holes[own.hole - first].latest;
      }
      choices_[choice.hole] = choice;
    }
  }

  const PairTrace& step_;
  const PairedGraph& graph_;
  std::vector<std::vector<std::size_t>> times_;
  std::map<std::uint64_t, std::vector<const PlanAction*>> actions_;  // by storage
  std::multimap<std::uint64_t, std::uint64_t> runs_again_;           // ops to before which op
  std::map<std::uint64_t, std::size_t> fetched_;                     // holes to before which op
  std::set<std::size_t> dropped_;                                    // pairs, in a wait
  std::map<std::size_t, std::uint64_t> again_;                       // pairs to before which op
  std::map<std::uint64_t, HoleChoice> choices_;                      // by hole
};

}  // namespace

std::vector<HoleChoice> choose(const PairTrace& step, const RunProfile& run,
                               const PairedGraph& graph, const Plan& plan) {
  return Chooser(step, run, graph, plan).choose();
}

}  // namespace spillway::tf
