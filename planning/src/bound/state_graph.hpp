// SPDX-License-Identifier: Apache-2.0
// The states that the storages of a short step can be in together, instant by instant, and the cost
// to get from one to the next: storages whole, room kept, recomputations with what they read.
//
//     instants    B0      E0      B1      E1       beginnings and ends of all ops
//     slots       |-- 0 --|-- 1 --|-- 2 --|        even: op i runs; odd: time before the next op
//     states      o       o       o       o
//                  \_ a, b in    \_ b in, a away: a copy out of a, in slot 1 or before
//
// **States.** The instants are the beginnings and ends of all ops. A slot within an op has the
// op's `d(i)` and no `e`; the others have only an `e`. The largest storages are *tracked*; to
// ignore the others excludes no plan. A state says of every tracked storage that is alive and
// used again: on the device (also if its copy in has begun), on the device with a valid copy
// elsewhere, away with a copy, or nowhere. It is allowed if all that the op touches is on the
// device, and the rest there fits into `C - W`.
//
// **Transitions.** From one allowed state to the next:
//
// - A storage that comes to the device comes by a copy in, which begins after the first instant and
//   ends before the next use; or its creator runs in the slot, which must have an `e`.
// - A storage that goes away without a copy goes by a copy out, which begins after the last write
//   and ends before the second instant.
// - An op that runs again has its inputs on the device in the slot. An input that is there at
//   neither instant came in and left again, by a copy within the slot or because it was made again
//   too.
//
// The runs, and the copies that lie wholly in the slot, are the slot's *jobs*: a copy in for the
// next op or for a run, and a copy out of a storage that the last op wrote.
//
// **What jobs cost.** Two jobs exclude each other if they are copies in the same direction, two
// runs, or a copy in and the run that reads it; or if the bytes that both hold (a copy its
// storage, a run what its op touches) do not fit into C together with the storages that stay on
// the device. A set of which any two exclude each other is done one after the other, and `e` is
// at least the sum of its times; let `T` be the largest such sum. Or a storage that stays leaves
// in the slot and comes back: then the slot has one more copy in or run, unless a run among the
// jobs makes that storage, and `e` is at least the sum with it, and at least the `T` of jobs
// with nothing beside them. `waits` is the lesser of the two cases.
//
// The terms are those of docs/planners/bound.md. What the states leave out (small storages, the
// turn of the step) makes the bound weaker, never wrong; state_ascent.hpp proves it. Not for
// threads.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "bound/window_scan.hpp"

namespace spillway::planning::bound {

/// Two bits of a state.
enum class Place : std::uint8_t {
  kIn,          ///< on the device, or coming
  kInWithCopy,  ///< the same, with a copy elsewhere
  kAway,        ///< only the copy
  kNowhere,     ///< to be made again
};

class StateGraph {
 public:
  using State = std::uint64_t;
  /// A copy that may be made in other slots, too.
  struct Copy {
    std::uint32_t tracked = 0;
    bool out = false;
  };
  struct Transition {
    std::uint32_t from = 0, to = 0;  ///< indices of states of this instant and the next
    double waits = 0;                ///< ns for which no op of the program can run, at least
    double in = 0, out = 0;          ///< ns of the links that must lie in this slot
    double runs = 0;                 ///< ns of ops run again in it
    std::uint32_t first_copy = 0, last_copy = 0;  ///< of `copies`
  };

  /// Tracks as many of the largest storages as allow no more than `most_transitions`.
  StateGraph(const CyclicView& view, const Boundary& boundary, std::size_t most_transitions);

  /// False where too little can be tracked to be of use.
  [[nodiscard]] bool usable() const { return usable_; }
  [[nodiscard]] std::size_t instants() const { return static_cast<std::size_t>(2 * view_.ops); }
  [[nodiscard]] std::size_t states(std::size_t instant) const { return states_[instant].size(); }
  [[nodiscard]] std::span<const Transition> transitions(std::size_t slot) const {
    return std::span(transitions_).subspan(first_of_[slot], first_of_[slot + 1] - first_of_[slot]);
  }
  [[nodiscard]] std::span<const Copy> copies(const Transition& of) const {
    return std::span(copies_).subspan(of.first_copy, of.last_copy - of.first_copy);
  }
  [[nodiscard]] std::size_t tracked() const { return tracked_.size(); }
  [[nodiscard]] double copy_ns(const Copy& copy) const {
    return copy.out ? tracked_[copy.tracked].out : tracked_[copy.tracked].in;
  }
  /// The slots [first, last] in which a copy that ends, or begins, an absence at `slot` can be
  /// made; those beyond the ends of the step are of the steps beside it.
  struct Window {
    Position first = 0, last = 0;
  };
  [[nodiscard]] Window window(const Copy& copy, std::size_t slot) const {
    const auto here = static_cast<Position>(slot);
    const auto& at = tracked_[copy.tracked].at;
    return copy.out ? Window{at[slot].written, here} : Window{here, at[slot].used};
  }

 private:
  struct Moment {
    bool active = false;   // alive, and used again
    bool touched = false;  // by the op
    Position used = 0;     // the slot before its next use
    Position written = 0;  // the slot after its last write
  };
  struct Tracked {
    Row storage = 0;
    std::uint64_t bytes = 0;
    double in = 0, out = 0;
    Row made_by = kNoRow;    // the op that makes it again
    Row may_be_made = 0;     // before this op at the latest
    Row freed = kNoRow;      // by this op
    std::vector<Moment> at;  // by instant
  };
  // The events in one slot while a transition is put together.
  struct Change;
  class Builder;

  void track(std::size_t most);
  [[nodiscard]] Tracked describe(Row storage) const;
  bool build(std::size_t most_transitions);

  const CyclicView& view_;
  const Boundary& boundary_;
  std::vector<Tracked> tracked_;
  std::vector<std::vector<State>> states_;  // by instant
  std::vector<Transition> transitions_;
  std::vector<std::size_t> first_of_;  // by slot
  std::vector<Copy> copies_;
  bool usable_ = false;
};

}  // namespace spillway::planning::bound
