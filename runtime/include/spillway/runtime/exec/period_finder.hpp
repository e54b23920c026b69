// SPDX-License-Identifier: Apache-2.0
// Finds the distances at which a stream of ops may repeat.
//
//     stream     a b c d e | a b c d e | a ..
//     window     [c d e] a   [c d e] a            both stood behind the same ops: candidate 5
//     run                    |== holds ==|        it is due when it has held for its distance
//
// A *candidate* is such a distance, with the stretch over which each op equalled the op that ran
// that distance before it. A candidate that has held for as many ops as its distance is a period:
// those stretches of the stream are equal. The caller says what a period is worth.
//
// Units: ops, counted as OpHistory does. Single-threaded; throws only std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spillway/runtime/exec/op_history.hpp"

namespace spillway::runtime {

class PeriodFinder {
 public:
  /// token[i] == token[i - distance] held over [run_begin, run_end).
  struct Candidate {
    std::uint64_t distance;
    std::uint64_t run_begin;
    std::uint64_t run_end;
  };

  PeriodFinder();

  /// Notes that `op`, which has begun, stood here behind its window, and takes the distance to
  /// where both stood last for a candidate. The op belongs to it: where the stream leaves a known
  /// stretch the window is nothing special. False if there is no new candidate.
  bool note(const OpHistory& history, std::uint64_t op);
  /// The history remembers more ops than before.
  void grow(const OpHistory& history);

  /// The op at which the first candidate is due; UINT64_MAX: there is none.
  [[nodiscard]] std::uint64_t next_due() const;
  /// Drops candidates that no longer hold at `op`, and calls `found` with each that is due, which
  /// is one no longer. `found` may call drop_up_to.
  template <typename Found>
  void take_due(const OpHistory& history, std::uint64_t op, const Found& found);
  /// Those at that distance or nearer are explained.
  void drop_up_to(std::uint64_t distance);

 private:
  static bool extend_run(const OpHistory& history, Candidate& candidate, std::uint64_t op);
  void drop_ended(const OpHistory& history, std::uint64_t op);

  std::vector<std::uint64_t> last_window_;  ///< by hash of window and op: where they stood, plus 1
  std::vector<Candidate> candidates_;
  std::uint64_t scanned_ = 0;  ///< ops compared backwards
};

template <typename Found>
void PeriodFinder::take_due(const OpHistory& history, std::uint64_t op, const Found& found) {
  drop_ended(history, op);
  for (std::size_t i = 0; i < candidates_.size();) {
    const Candidate candidate = candidates_[i];
    if (op - candidate.run_begin < candidate.distance) {
      ++i;
      continue;
    }
    candidates_.erase(candidates_.begin() + static_cast<std::ptrdiff_t>(i));
    found(candidate);
  }
}

}  // namespace spillway::runtime
