// SPDX-License-Identifier: Apache-2.0
#include "pair_trace.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace spillway::tf {
namespace {

using Places = std::unordered_map<std::string_view, std::size_t>;

Places find_places(const RunProfile& run) {
  Places places;
  for (std::size_t i = 0; i < run.ops.size(); ++i) places.emplace(run.ops[i].node, i);
  return places;
}

// The life of a pair's tensor in the run.
struct Life {
  std::size_t made = 0;
  std::size_t last = 0;
  Bytes bytes{};
  std::vector<std::pair<std::size_t, std::size_t>> held;  // from op to op: it cannot leave
  std::vector<std::pair<std::size_t, std::size_t>> in_memory;
};

class Builder {
 public:
  Builder(const RunProfile& run, const PairedGraph& graph)
      : run_(run), graph_(graph), places_(find_places(run)) {}

  PairTrace build() {
    std::uint64_t hole = graph_.first_hole;
    std::vector<Life> lives;
    for (std::size_t i = 0; i < graph_.pairs.size(); ++i) {
      const std::size_t holes = graph_.pairs[i].holes.size();
      if (auto life = life_of(i, hole)) lives.push_back(std::move(*life));
      hole += holes;
    }
    add_ops(lives);
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
    Life life{.made = *made, .last = *made, .bytes = {}, .held = {}, .in_memory = {}};
    find_stays(life, first_hole, pair.holes.size());
    if (life.bytes.count == 0) return std::nullopt;
    const StorageId storage{result_.trace.storages.size()};
    std::vector<PlannedWait> waits;
    std::vector<std::uint64_t> short_holes;
    if (const auto early = span_of(pair.early)) hold_until(life, early->second);
    for (std::size_t i = 0; i < pair.holes.size(); ++i) {
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

  // What else passes between ops is not in the trace: by this each is one level above the one
  // before.
  void keep_order(std::vector<TraceOp>& ops) {
    if (ops.size() < 2) return;
    const StorageId order = result_.trace.add(
        TraceStorage{.bytes = Bytes{1}, .role = StorageRole::kWorkspace, .name = "order"});
    ops.front().creates.push_back(order);
    for (std::size_t i = 1; i < ops.size(); ++i) ops[i].writes.push_back(order);
    ops.back().frees.push_back(order);
  }

  void add_ops(const std::vector<Life>& lives) {
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
    keep_order(ops);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      ops[i].name = run_.ops[i].node;
      ops[i].source = run_.ops[i].node;
      ops[i].duration_ns = std::max<TimeNs>(run_.ops[i].duration_ns, 1);
      ops[i].workspace = saturating_sub(run_.ops[i].peak, movable[i]);
      result_.trace.add(ops[i]);
    }
  }

  const RunProfile& run_;
  const PairedGraph& graph_;
  const Places places_;
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

std::vector<HoleChoice> choose(const PairTrace& step, const RunProfile& run,
                               const PairedGraph& graph, const Plan& plan) {
  const Places places = find_places(run);
  std::vector<std::vector<std::size_t>> times;
  for (const auto& heavy : graph.clocks) times.push_back(times_of(heavy, places));
  std::unordered_map<std::uint64_t, std::vector<const PlanAction*>> actions;  // by storage
  for (const PlanAction& action : plan.actions) {
    actions[to_value(action.storage)].push_back(&action);
  }
  std::vector<HoleChoice> choices;
  for (const std::uint64_t hole : step.short_holes) choices.push_back({.hole = hole});
  for (const PlannedWait& wait : step.waits) {
    const PairName& pair = graph.pairs[wait.pair];
    const std::uint64_t latest = pair.holes[wait.index].latest;
    HoleChoice choice{.hole = wait.hole, .leaves = false, .due = latest};
    for (const PlanAction* const action : actions[to_value(wait.storage)]) {
      const std::size_t at = to_value(action->at);
      if (at <= wait.before || at > wait.after) continue;
      if (action->kind == PlanActionKind::kEvict) choice.leaves = true;
      if (action->kind != PlanActionKind::kFetch || latest == 0) continue;
      const auto& clock = times[pair.clock - graph.first_clock];
      const auto due = std::ranges::upper_bound(clock, at) - clock.begin();
      choice.due = std::min(latest, static_cast<std::uint64_t>(due));
    }
    choices.push_back(choice);
  }
  return choices;
}

}  // namespace spillway::tf
