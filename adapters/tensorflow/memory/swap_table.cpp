// SPDX-License-Identifier: Apache-2.0
#include "swap_table.hpp"

#include <algorithm>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::tf {
namespace {

constexpr double kFillTo = 0.90;
// The step in which a change comes is half of the one and half of the other plan.
constexpr std::uint64_t kRoundsToSettle = 2;
constexpr std::uint64_t kRoundsToMeasure = 2;
// A graph that does not run any more, such as that of an epoch's end, holds up no other.
constexpr std::uint64_t kPatienceInRounds = 4;

Bytes share_of(Bytes bytes, double share) {
  return {static_cast<std::uint64_t>(static_cast<double>(bytes.count) * share)};
}

}  // namespace

SwapTable::SwapTable(SwapTableOptions options, std::function<Bytes()> take_peak,
                     std::function<void(std::size_t, std::int64_t)> on_run)
    : options_(options),
      take_peak_(std::move(take_peak)),
      on_run_(std::move(on_run)),
      smallest_(options.smallest.count) {}

std::uint64_t SwapTable::add_holes(const std::vector<bool>& in_loop, bool by_plan) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t first = holes_.size();
  for (const bool loops : in_loop) {
    const bool is_odd = holes_.size() % 2 == 1;
    holes_.push_back({.graph = graphs_.size(), .in_loop = loops, .comes_ahead = is_odd});
  }
  graphs_.push_back({.first = first,
                     .count = in_loop.size(),
                     .all_in_loops = std::ranges::count(in_loop, false) == 0,
                     .has_loops = std::ranges::count(in_loop, true) != 0,
                     .by_plan = by_plan});
  return first;
}

void SwapTable::follow(std::span<const HoleDecision> decisions) {
  const std::lock_guard lock(mutex_);
  if (decisions.empty() || gave_up_) return;
  Graph& graph = graphs_[holes_[decisions.front().hole].graph];
  graph.by_plan = true;
  for (std::uint64_t i = graph.first; i < graph.first + graph.count; ++i) {
    if (holes_[i].in_loop) continue;
    holes_[i].passes = false;
    holes_[i].had_to_leave = false;
    holes_[i].due.reset();
    holes_[i].recomputed = false;
  }
  for (const HoleDecision& decision : decisions) {
    holes_[decision.hole].passes = !decision.leaves;
    holes_[decision.hole].due = decision.due;
    holes_[decision.hole].recomputed = decision.recomputed;
  }
  ++changes_;
}

void SwapTable::measure_instead(std::uint64_t hole) {
  const std::lock_guard lock(mutex_);
  graphs_[holes_[hole].graph].by_plan = false;
}

std::size_t SwapTable::graph_of(std::uint64_t hole) const {
  const std::lock_guard lock(mutex_);
  return holes_[hole].graph;
}

std::optional<std::uint64_t> SwapTable::decide_due(std::uint64_t hole) {
  const std::lock_guard lock(mutex_);
  if (options_.always_copy) {
    bool& ahead = holes_[hole].comes_ahead;
    ahead = !ahead;
    return ahead ? std::optional<std::uint64_t>(0) : std::nullopt;
  }
  return gave_up_ ? std::nullopt : holes_[hole].due;
}

bool SwapTable::recomputes(std::uint64_t number, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  Hole& hole = holes_[number];
  if (!may_leave(bytes) || is_small(bytes)) return false;
  if (options_.always_copy) return hole.takes_turn = !hole.takes_turn;
  return hole.recomputed && !gave_up_;
}

void SwapTable::recomputed(std::uint64_t ops, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  recomputed_ops_ += ops;
  recomputed_ += bytes;
}

Bytes SwapTable::largest(std::uint64_t hole) const {
  const std::lock_guard lock(mutex_);
  return holes_[hole].largest;
}

bool SwapTable::copies(std::uint64_t number, Bytes bytes, std::int64_t step) {
  std::optional<std::size_t> runs;
  bool copies = false;
  {
    const std::lock_guard lock(mutex_);
    SPILLWAY_CHECK(number < holes_.size(), std::to_string(number));
    if (begins_run_locked(number, step)) runs = holes_[number].graph;
    copies = copies_locked(number, bytes);
  }
  if (runs && on_run_) on_run_(*runs, step);
  return copies;
}

bool SwapTable::begins_run_locked(std::uint64_t number, std::int64_t step) {
  Graph& graph = graphs_[holes_[number].graph];
  if (graph.all_in_loops) return number == graph.first;
  if (holes_[number].in_loop) return false;
  const auto known = std::ranges::find(graph.first_holes, std::optional(step), &FirstHole::step);
  if (known != graph.first_holes.end()) return known->hole == number;
  graph.first_holes[graph.steps++ % graph.first_holes.size()] = {.step = step, .hole = number};
  return true;
}

bool SwapTable::copies_locked(std::uint64_t number, Bytes bytes) {
  Hole& hole = holes_[number];
  hole.largest = std::max(hole.largest, bytes);
  const Graph& graph = graphs_[hole.graph];
  const bool measures = !graph.by_plan || graph.has_loops;
  if (!options_.always_copy && !gave_up_ && measures) count_run_locked(hole);
  if (!may_leave(bytes) || is_small(bytes) || hole.passes) return false;
  hole.left = true;
  return true;
}

void SwapTable::count_run_locked(Hole& hole) {
  Graph& graph = graphs_[hole.graph];
  if (graph.settled && hole.round != 0) return;
  graph.settled = false;  // a hole that runs for the first time
  if (measured_ == hole.graph) rounds_of_others_ = 0;
  const bool again = hole.round == graph.round;
  if (!graph.all_in_loops && again && !hole.in_loop) end_round_locked(hole.graph);
  if (hole.round != graph.round) ++graph.ran;
  hole.round = graph.round;
  if (graph.all_in_loops && graph.ran == graph.count) end_round_locked(hole.graph);
}

void SwapTable::end_round_locked(std::size_t number) {
  Graph& graph = graphs_[number];
  ++graph.round;
  graph.ran = 0;
  if (measured_ && measured_ != number) ++rounds_of_others_;
  if (graph.round <= graph.wait_until) return;
  if (measured_ != number) {
    if (!measured_ || rounds_of_others_ > kPatienceInRounds) begin_measuring_locked(number);
    return;
  }
  measured_.reset();
  decide_locked(graph, take_peak_());
  graph.wait_until = graph.round + kRoundsToSettle;
}

void SwapTable::begin_measuring_locked(std::size_t number) {
  if (measured_) graphs_[*measured_].wait_until = graphs_[*measured_].round + kRoundsToSettle;
  measured_ = number;
  rounds_of_others_ = 0;
  graphs_[number].wait_until = graphs_[number].round + kRoundsToMeasure;
  take_peak_();
}

void SwapTable::decide_locked(Graph& graph, Bytes peak) {
  std::vector<Hole*> copying;
  for (std::uint64_t i = graph.first; i < graph.first + graph.count; ++i) {
    Hole& hole = holes_[i];
    if (graph.by_plan && !hole.in_loop) continue;
    if (hole.left && !hole.passes && !hole.had_to_leave) copying.push_back(&hole);
  }
  graph.settled = true;
  std::ranges::stable_sort(copying, {}, [](const Hole* hole) { return hole->most_in_store; });
  Bytes reached = peak;
  for (Hole* const hole : copying) {
    reached += hole->most_in_store;
    if (reached > share_of(options_.budget, kFillTo)) break;
    hole->passes = true;
    graph.settled = false;
  }
  if (!graph.settled) ++changes_;
}

void SwapTable::stored(std::uint64_t number, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  Hole& hole = holes_[number];
  hole.in_store += bytes;
  hole.most_in_store = std::max(hole.most_in_store, hole.in_store);
}

void SwapTable::dropped(std::uint64_t number, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  holes_[number].in_store -= bytes;
}

void SwapTable::had_to_leave(std::uint64_t number, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  Hole& hole = holes_[number];
  const bool small = is_small(bytes);
  if (small) smallest_.store(bytes.count);
  if (!hole.passes && !small) return;
  if (hole.passes) hole.had_to_leave = true;
  hole.passes = false;
  ++graphs_[hole.graph].late_leaves;
  ++changes_;
}

std::uint64_t SwapTable::late_leaves(std::uint64_t hole) const {
  const std::lock_guard lock(mutex_);
  return graphs_[holes_[hole].graph].late_leaves;
}

void SwapTable::give_up() {
  const std::lock_guard lock(mutex_);
  give_up_locked();
}

bool SwapTable::has_given_up() const {
  const std::lock_guard lock(mutex_);
  return gave_up_;
}

void SwapTable::give_up_locked() {
  for (Hole& hole : holes_) hole.passes = false;
  gave_up_ = true;
  ++changes_;
}

SwapTableState SwapTable::state() const {
  const std::lock_guard lock(mutex_);
  SwapTableState state{.holes = holes_.size(),
                       .changes = changes_,
                       .gave_up = gave_up_,
                       .recomputed_ops = recomputed_ops_,
                       .recomputed = recomputed_};
  for (const Graph& graph : graphs_) state.late_leaves += graph.late_leaves;
  for (const Hole& hole : holes_) {
    if (hole.most_in_store.count == 0) continue;
    ++state.used;
    if (hole.passes) ++state.passing;
  }
  return state;
}

}  // namespace spillway::tf
