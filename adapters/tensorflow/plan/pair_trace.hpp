// SPDX-License-Identifier: Apache-2.0
// Makes of a measured run a step for planners, and of a plan for it what the pairs of the graph do.
//
//     run: ops in order, each with the most that was allocated
//     pairs: maker, users of each hole        ──> Trace ──planner──> Plan ──> a choice for each
//     hole
//
// The trace has one storage for each pair outside of loops; all else that was allocated while an op
// ran is that op's workspace, which nobody can move. An op between two uses of which no swap-in is
// reads the storage, so that no planner moves it there. So whatever a planner decides can be
// carried out.
//
// Besides, all ops write one and the same byte, but for those that may run again: so the distance
// of two ops is that of their places.
//
// A hole leaves if the plan evicts its storage between the last use before it and the first one
// after it. Its swap-in is due at the latest time of its clock at which all heavy ops counted so
// far had begun before the op to which the plan ties the fetch.
//
// A tensor with a twin (twins.hpp) is computed again if the plan drops it in its hole and runs its
// op again. That op is recomputable in the trace if the tensor waits once only, and it reads the
// twin's sources, which are then held at least until it has run the first time. What the twin's
// other ops take is added to it, unless they make tensors of pairs. A source comes back at the gate
// of a twin that runs, if the plan has evicted it, and stays for its own users.
//
// Pure functions. A pair of which an op did not run, or that nothing is known of, has no storage
// and its holes no choice.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rewrite.hpp"
#include "run_profile.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tf {

/// A graph with pairs, and the numbers of its first hole and its first clock.
struct PairedGraph {
  std::vector<PairName> pairs{};
  std::vector<std::vector<std::string>> clocks{};
  std::vector<std::vector<std::string>> partitions{};
  std::uint64_t first_hole = 0;
  std::uint64_t first_clock = 0;
  std::uint64_t signature = 0;

  [[nodiscard]] std::uint64_t holes() const;
};

/// A hole in which the storage could leave: its uses before and after it.
struct PlannedWait {
  std::uint64_t hole = 0;
  StorageId storage{};
  std::size_t before = 0;  ///< op
  std::size_t after = 0;   ///< op, later than before + 1
  std::size_t pair = 0;
  std::size_t index = 0;  ///< of the hole in its pair
};

/// A tensor that a plan may have computed again.
struct PlannedTwin {
  std::size_t pair = 0;
  OpIndex op{};  ///< that made it
};

struct PairTrace {
  Trace trace;
  std::vector<PlannedTwin> twins;
  std::vector<PlannedWait> waits;
  std::vector<std::uint64_t> short_holes;  ///< of pairs that have a storage: nothing lies between
  /// Of each op, from 0, and none is below that of the op before; empty: the graph has none. An op
  /// in no partition is in that of the ops before it.
  std::vector<std::uint32_t> partitions;
};

PairTrace make_pair_trace(const RunProfile& run, const PairedGraph& graph);

/// Where an op needs more than `most` at once, its workspace counts as what the storages that it
/// touches leave of that. False if no op does, or storages alone are more.
bool limit_needs(Trace& trace, Bytes most);

struct HoleChoice {
  std::uint64_t hole = 0;
  bool leaves = false;
  std::uint64_t due = 0;    ///< of the hole's clock
  bool recomputed = false;  ///< in place of leaving

  bool operator==(const HoleChoice&) const = default;
};

/// The plan's actions are sorted.
std::vector<HoleChoice> choose(const PairTrace& step, const RunProfile& run,
                               const PairedGraph& graph, const Plan& plan);

}  // namespace spillway::tf
