// SPDX-License-Identifier: Apache-2.0
// The course of one pass: for each op, it brings in what the op needs, runs it, and lets go of what
// it frees. room_maker.hpp decides who leaves for it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pass/pass_state.hpp"
#include "pass/room_maker.hpp"

namespace spillway::planning::pass {

class StepPass {
 public:
  /// Refers to `model` and `settings`.
  StepPass(const StepModel& model, const SweepSettings& settings, const BeginState& begin);

  /// Carries the pass through op `op`. False if it does not fit: `short_by` tells by how much.
  bool step(Row op);
  /// Closes the step. False if it cannot begin again.
  bool finish(SweepResult& result);

  [[nodiscard]] std::uint64_t short_by() const { return room_maker_.short_by(); }
  /// Storages whose recomputation did not fit where the pass stopped.
  [[nodiscard]] const std::vector<Row>& to_blame() const { return to_blame_; }

 private:
  void begin_storage(Row storage, const BeginState& begin);
  void choose_workspace(Row op);
  bool bring_in(Row op);
  bool recompute(Row op, const std::vector<Row>& roots);
  bool bring_in_leaves(Row op, const RecomputeSet& set);
  void run_again(Row op, Row again, const RecomputeSet& set);
  void drop_again(Row op, const RecomputeSet& set);
  void release_leaf(Row op, Row leaf);
  void add_segments(Row op, std::vector<Row>& roots) const;
  void prefetch(Row op);
  void prefetch_from(Tier tier, Row op);
  void fetch(Row op, Row storage);
  bool stay_after_all(Row op, Row storage);
  void start_op(Row op);
  void touch_all(Row op);
  void end_op(Row op);
  void leave_eagerly(Row op);

  PassState state_;
  RoomMaker room_maker_;
  const BeginState& begin_;
  std::vector<Row> to_blame_;
  std::vector<std::pair<Row, Row>> segments_;  // segment and storage, sorted
  std::uint64_t inputs_ = 0;                   // bytes that every step begins with anew
};

}  // namespace spillway::planning::pass
