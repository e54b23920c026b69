// SPDX-License-Identifier: Apache-2.0
// Keeps in which holes a tensor leaves. A hole is the wait of a tensor for one of its swap-ins. The
// kernels of a graph ask while it runs; nothing is traced again when the answer changes.
//
//     first step      in every hole: what does not fit at all without runs, with no size known
//     measured        the peak of live memory over a whole step, and the most bytes of each hole
//                     that lay in the store at once
//     then            holes pass: their tensor stays, the smallest first, as long as
//                         peak + bytes of those that pass <= 90 % of the budget
//
// Each graph is measured by itself, one at a time, over rounds. A round of a graph ends when a hole
// that is in no loop runs again, for then a whole step lies in between; where all holes are in
// loops, when each of them has run.
//
// A hole that passes adds to the peak at most what it had in the store, so the bound holds for the
// order in which the step was run; the rest of the budget is for another order. It is measured
// again after each change, and more pass where the bound was too wide. Where memory runs out all
// the same a tensor that stayed leaves late, while somebody waits: its hole passes no more. If an
// allocation fails tensors leave in every hole again, for good.
//
// Where a plan decides (`by_plan`) this goes for holes in loops alone. In the others everything
// copies until there is a plan, and then what it says. A tensor that left late since memory ran
// out leaves in its hole from then on, until the next plan.
//
// A plan also says which tensors are computed again in place of a swap (twins.hpp): they neither
// leave nor stay, since their memory goes with their last user before the hole. Nobody else decides
// that. Where everything copies always, every other time one that could be is.
//
// A tensor below the smallest size stays, and no plan counts with it, until memory runs out. Where
// nothing larger can leave then, it does, and its size is the smallest one from then on. Below the
// least size it always stays. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rewrite.hpp"
#include "spillway/base/bytes.hpp"

namespace spillway::tf {

struct SwapTableOptions {
  Bytes budget{};
  Bytes smallest{};          ///< tensors below it stay while there is room
  Bytes least = smallest;    ///< and below this always
  bool always_copy = false;  ///< fuzz, verify
};

/// The decision of a plan for one hole.
struct HoleDecision {
  std::uint64_t hole = 0;
  bool leaves = false;
  std::uint64_t due = 0;    ///< its swap-in, by the hole's clock
  bool recomputed = false;  ///< it does not leave: its twin makes it again
};

struct SwapTableState {
  std::uint64_t holes = 0;
  std::uint64_t used = 0;     ///< those in which a tensor ever left
  std::uint64_t passing = 0;  ///< of those
  std::uint64_t changes = 0;
  bool gave_up = false;
  std::uint64_t late_leaves = 0;  ///< tensors that were to stay and had to leave
  std::uint64_t recomputed_ops = 0;
  Bytes recomputed{};  ///< of tensors that were computed again, and so were not swapped
};

class SwapTable {
 public:
  /// `take_peak`: the peak of live memory since it was last called. `on_run`: a graph runs, in the
  /// step that copies() was told; called with no lock held.
  SwapTable(SwapTableOptions options, std::function<Bytes()> take_peak,
            std::function<void(std::size_t graph, std::int64_t step)> on_run = {});

  /// Numbers for the holes of a graph: the first one's. They copy. `in_loop`: one for each.
  /// `by_plan`: plans decide what passes outside of loops.
  std::uint64_t add_holes(const std::vector<bool>& in_loop, bool by_plan = false);

  /// Sets which holes pass from now on, and when swap-ins are due; holes that are not named copy.
  /// Does nothing once an allocation has failed.
  void follow(std::span<const HoleDecision> decisions);
  /// No plan decides any more in the graph of the hole: what passes is measured.
  void measure_instead(std::uint64_t hole);
  [[nodiscard]] std::size_t graph_of(std::uint64_t hole) const;
  /// A swap-in that ends the hole begins: when it is due; nothing where no plan says so. Where
  /// everything copies always, every other one is due at once.
  [[nodiscard]] std::optional<std::uint64_t> decide_due(std::uint64_t hole);

  /// Whether the tensor that comes to the hole is to be computed again at its end.
  bool recomputes(std::uint64_t hole, Bytes bytes);
  /// It was, by so many ops.
  void recomputed(std::uint64_t ops, Bytes bytes);

  /// The largest tensor that ever came to the hole.
  [[nodiscard]] Bytes largest(std::uint64_t hole) const;

  /// A tensor comes to a hole: whether it leaves. `step`: the framework's number of the run.
  ///
  /// A run begins when a hole that is in no loop comes first in a step, be it in a branch that
  /// other steps do not take, and again with each turn of that hole. Where all are in loops the
  /// graph's first one tells, by each of its turns.
  bool copies(std::uint64_t hole, Bytes bytes, std::int64_t step = 0);
  /// In that hole it lies in the store from now on, and no longer.
  void stored(std::uint64_t hole, Bytes bytes);
  void dropped(std::uint64_t hole, Bytes bytes);

  /// A tensor that stayed had to leave, since somebody else lacked room.
  void had_to_leave(std::uint64_t hole, Bytes bytes);
  /// How often one of the hole's graph had to.
  [[nodiscard]] std::uint64_t late_leaves(std::uint64_t hole) const;

  /// An allocation failed.
  void give_up();
  [[nodiscard]] bool has_given_up() const;

  /// Whether a tensor of so many bytes may leave at all.
  [[nodiscard]] bool may_leave(Bytes bytes) const {
    return bytes >= options_.least && bytes.count != 0;
  }
  [[nodiscard]] Bytes smallest() const { return {smallest_.load()}; }
  [[nodiscard]] Bytes least() const { return options_.least; }
  /// Whether it stays while larger ones can leave.
  [[nodiscard]] bool is_small(Bytes bytes) const { return bytes < smallest(); }
  [[nodiscard]] bool always_copies() const { return options_.always_copy; }

  [[nodiscard]] SwapTableState state() const;

  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  struct Hole {
    std::size_t graph = 0;
    bool in_loop = false;
    std::uint64_t round = 0;  // the last one it ran in; 0: it never ran
    Bytes in_store{};
    Bytes most_in_store{};
    bool left = false;  // a tensor was to leave in it, be it that it was taken back
    bool passes = false;
    bool had_to_leave = false;  // it never passes again
    std::optional<std::uint64_t> due{};
    bool recomputed = false;
    bool takes_turn = false;   // where everything copies always
    bool comes_ahead = false;  // likewise
    Bytes largest{};
  };
  struct FirstHole {
    std::optional<std::int64_t> step;
    std::uint64_t hole = 0;
  };
  struct Graph {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    // The last steps and the hole that came first in each: some may be under way beside others.
    std::array<FirstHole, 4> first_holes{};
    std::size_t steps = 0;  // modulo those
    bool all_in_loops = false;
    bool has_loops = false;
    std::uint64_t round = 1;
    std::uint64_t ran = 0;         // holes in this round
    std::uint64_t wait_until = 2;  // the round in which what it does now ends
    bool settled = false;          // nothing is left to change
    bool by_plan = false;
    std::uint64_t late_leaves = 0;
  };

  bool copies_locked(std::uint64_t number, Bytes bytes);
  [[nodiscard]] bool begins_run_locked(std::uint64_t number, std::int64_t step);
  void count_run_locked(Hole& hole);
  void end_round_locked(std::size_t graph);
  void begin_measuring_locked(std::size_t graph);
  /// More holes of the graph pass, as far as there is room.
  void decide_locked(Graph& graph, Bytes peak);
  void give_up_locked();

  const SwapTableOptions options_;
  const std::function<Bytes()> take_peak_;
  const std::function<void(std::size_t, std::int64_t)> on_run_;
  std::atomic<std::uint64_t> smallest_;
  mutable std::mutex mutex_;
  std::deque<Hole> holes_;
  std::deque<Graph> graphs_;
  std::optional<std::size_t> measured_;  // graph
  std::uint64_t rounds_of_others_ = 0;   // since the measured one ran
  std::uint64_t changes_ = 0;
  std::uint64_t recomputed_ops_ = 0;
  Bytes recomputed_{};
  bool gave_up_ = false;
};

}  // namespace spillway::tf
