// SPDX-License-Identifier: Apache-2.0
// Which pairs copy. The kernels of a graph ask while it runs; nothing is traced again when the
// answer changes.
//
//     first step      every pair copies: what does not fit at all without runs, with no size known
//     measured        the peak of live memory over a whole step, and the most bytes of each pair
//                     that lay in the store at once
//     then            pairs pass their tensor on, the smallest first, as long as
//                         peak + bytes of those that pass <= 90 % of the budget
//
// Each graph is measured by itself, one at a time, over rounds. A round of a graph ends when a pair
// that is in no loop runs again, for then a whole step lies in between; where all pairs are in
// loops, when each of them has run.
//
// A pair that passes its tensor on adds to the peak at most what it had in the store, so the bound
// holds for the order in which the step was run; the rest of the budget is for another order. It is
// measured again after each change, and more pairs pass where the bound was too wide. If the peak
// comes near the budget all the same, or an allocation fails, everything copies again, for good.
//
// A tensor below the smallest size always passes. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "rewrite.hpp"
#include "spillway/base/bytes.hpp"

namespace spillway::tf {

struct SwapTableOptions {
  Bytes budget{};
  Bytes smallest{};          ///< tensors below it stay
  bool always_copy = false;  ///< fuzz
};

struct SwapTableState {
  std::uint64_t pairs = 0;
  std::uint64_t used = 0;     ///< those that a step came to with a tensor that may leave
  std::uint64_t passing = 0;  ///< of those
  std::uint64_t changes = 0;
  bool gave_up = false;
};

class SwapTable {
 public:
  /// `take_peak`: the peak of live memory since it was last called. `on_run`: a graph runs, told by
  /// its first pair that is in no loop, else by its first; called with no lock held.
  SwapTable(SwapTableOptions options, std::function<Bytes()> take_peak,
            std::function<void(std::size_t graph)> on_run = {});

  /// Numbers for the pairs of a graph: the first one's. They copy. `in_loop`: one for each.
  std::uint64_t add_pairs(const std::vector<bool>& in_loop);

  /// A swap-out runs: whether it copies.
  bool copies(std::uint64_t pair, Bytes bytes);
  /// A copy came into the store, and went.
  void stored(std::uint64_t pair, Bytes bytes);
  void dropped(std::uint64_t pair, Bytes bytes);

  /// An allocation failed.
  void give_up();

  [[nodiscard]] SwapTableState state() const;

 private:
  struct Pair {
    std::size_t graph = 0;
    bool in_loop = false;
    std::uint64_t round = 0;  // the last one it ran in; 0: it never ran
    Bytes in_store{};
    Bytes most_in_store{};
    bool passes = false;
  };
  struct Graph {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::uint64_t counting_pair = 0;  // whose runs are those of the graph
    bool all_in_loops = false;
    std::uint64_t round = 1;
    std::uint64_t ran = 0;         // pairs in this round
    std::uint64_t wait_until = 2;  // the round in which what it does now ends
    bool settled = false;          // nothing is left to change
  };

  bool copies_locked(std::uint64_t number, Bytes bytes);
  void count_run_locked(Pair& pair);
  void end_round_locked(std::size_t graph);
  void begin_measuring_locked(std::size_t graph);
  /// More pairs of the graph pass, or none does any more.
  void decide_locked(Graph& graph, Bytes peak);
  void give_up_locked();

  const SwapTableOptions options_;
  const std::function<Bytes()> take_peak_;
  const std::function<void(std::size_t)> on_run_;
  mutable std::mutex mutex_;
  std::deque<Pair> pairs_;
  std::deque<Graph> graphs_;
  std::optional<std::size_t> measured_;  // graph
  std::uint64_t rounds_of_others_ = 0;   // since the measured one ran
  std::uint64_t changes_ = 0;
  bool gave_up_ = false;
};

}  // namespace spillway::tf
