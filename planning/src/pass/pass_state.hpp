// SPDX-License-Identifier: Apache-2.0
// The state of a pass over the step at the op that it has reached: where storages are, what is
// decided and queued, what is free. The course of the pass (step_pass.hpp) and who leaves
// (room_maker.hpp) both work on it.
#pragma once

#include <cstdint>
#include <vector>

#include "draft/draft.hpp"
#include "pass/copy_schedule.hpp"
#include "pass/leave_candidates.hpp"
#include "pass/next_uses.hpp"
#include "pass/op_variants.hpp"
#include "pass/pass_item.hpp"
#include "pass/recomputation.hpp"
#include "pass/slower_copies.hpp"
#include "pass/sweep.hpp"

namespace spillway::planning::pass {

struct PassState {
  /// No storage is anywhere. Refers to `model` and `settings`.
  PassState(const StepModel& model, const SweepSettings& settings);
  PassState(const PassState&) = delete;
  PassState& operator=(const PassState&) = delete;

  [[nodiscard]] StorageRule rule_of(Row storage) const;
  /// Whether a recomputation could bring the storage back before its next use.
  [[nodiscard]] bool may_recompute(Row storage) const;
  /// Bytes that an op needs beside what it reads.
  [[nodiscard]] std::uint64_t own_need(Row op) const {
    return model.created[op] + variants.workspace(op);
  }
  /// How late op `op` is, in ns.
  [[nodiscard]] double lag(Row op) const { return now - deadlines[op]; }
  [[nodiscard]] Row next_after(Row storage, Row op) const {
    return uses.after(storage, items[storage].touch, op);
  }
  /// The choice for the gap in which the storage is.
  GapChoice& current_choice(Row storage);
  /// It is on the device, and may leave unless a rule keeps it.
  void offer(Row storage);
  /// It has just come to lie on a slower tier alone, or is about to leave there.
  void set_away(Row storage, bool away);
  void remove_copies(Row storage, Row op) { copies.remove_all(items[storage], storage, op); }

  const StepModel& model;
  const AccessTable& table;
  const SweepSettings& settings;
  const std::vector<double> deadlines;  ///< ns, by position: two steps and one more
  DeviceRoom room;
  Draft draft;
  std::vector<PassItem> items;  ///< by storage
  NextUses uses;
  OpVariants variants;
  SlowerCopies copies;
  CopySchedule schedule;
  LeaveCandidates candidates;
  Recomputation recomputation;
  std::vector<double> began;  ///< per op so far: ns
  double now = 0;             ///< ns
};

}  // namespace spillway::planning::pass
