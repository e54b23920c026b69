// SPDX-License-Identifier: Apache-2.0
// The shortest step there is, of traces tiny enough to search all schedules: a reference for tests
// that shares no code with planners, bound or simulator, but for how long a copy takes.
//
// A schedule says when each op, each run of an op again and each copy begins, and when copies are
// given up. Rules are those of docs/simulator.md and plan.hpp, where they leave a choice the more
// liberal one: copies begin at any time, not in the order in which plans queue them; a storage may
// stay on the device while it is copied out; the slower of its copies may be given up at any time.
// But what a plan sends off must be there before an op that does not use it
// (`evicted-for-nothing`), so that no copy out of what all ops since its last write have used
// begins before the next of them ends. What a plan does, simulated, is one of the schedules.
//
// Nothing shorter is left out, though the search lets things begin only at the ends of others:
// * What is begun and serves nothing (a copy out of what is then written, a copy of what is dead
//   before it ends) can be taken away from a schedule without harm.
// * Take the beginnings of a schedule in their order and move each forward to the moment when the
//   last of the ends that it needs is there, but not before the one begun before it. By induction
//   no end is later than it was. At the new moment all has ended that had ended when it began
//   before and that it needs; of what has not, nothing takes room by ending. So link, inputs and
//   room are there. Now each beginning is at time 0 or at an end, and those are the moments
//   searched.
// * What is given up or dropped is a beginning without duration.
// * States seen with an equal or shorter time are not searched again: the future depends on the
//   state alone. The rest is Dijkstra's algorithm with the ops' own time as the estimate.
//
// The step repeats. Traces in which nothing lives on have one state at the turn. With storages that
// live on, every state at the turn is tried that has them here or away, each link perhaps in the
// middle of a copy, and the step must end as it began. Time left of such a copy is rounded down to
// a share of its duration where the step begins and up where it ends; that makes the step shorter,
// never longer. Schedules that repeat every two steps alone are not searched.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "spillway/plan/plan.hpp"
#include "spillway/planning/problem.hpp"

namespace spillway::planning {

struct ExactStep {
  TimeNs step_ns = 0;
  std::size_t states = 0;  ///< searched
  /// The schedule as plans, as far as plans can say it; none need be right.
  std::vector<Plan> plans;
};

/// Traces of up to 16 storages, without inputs, alternatives and storages that continue as others;
/// where storages live on, without a disk.
/// Nothing if no schedule is shorter than `limit`. Throws std::length_error past `most_states`.
std::optional<ExactStep> exact_step(const Problem& problem, TimeNs limit, std::size_t most_states);

}  // namespace spillway::planning
