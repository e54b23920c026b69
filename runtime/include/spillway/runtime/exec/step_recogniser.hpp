// SPDX-License-Identifier: Apache-2.0
// Finds the training step in a stream of ops, and from it the next use of every storage.
//
//     stream   .. a b c d e f | a b c d e f | a b c x y z d e f | a b c d e f ..
//                 \_ loop ___/                      \_ detour
//     touch t  ---0 1-2-------                on the path touch t is answered by plan[t]
//
// A *record* is a stretch of ops that was seen, with a plan: for each touch in it, the distance in
// ops to the next touch of the same storage. A *loop* is a record that follows itself, and is made
// when a stretch of d ops was seen twice in a row; a *detour* is what the program did between two
// loops that were already known. The stream is *on the path* while each op is the one that the
// record has next, with as many touches. Plans refer to touches by number, never by storage: the
// activations of the next step are other storages, but they are touched in the same order.
//
// Its parts: PeriodFinder tells at which distances the stream may repeat, RecordPath answers the
// touches of the record that is followed, StepRecordSet keeps the records. The recogniser decides
// which stretch becomes a record, which record is followed, and how far it is believed.
//
// Units: ops and touches are counted from 0 since construction. Owns all that it keeps: 56 KiB at
// first, about 2 MiB for a step of 5,000 ops, and never more than 56 MiB of history and 145 MiB of
// records. Single-threaded, without locks: each Lane has one. No clock.
// Throws only std::bad_alloc.
//
// Sources: next use as the eviction order, Belady, "A study of replacement algorithms for a
// virtual-storage computer", IBM Systems Journal 5(2), 1966; window fingerprints, Karp and Rabin,
// "Efficient randomized pattern-matching algorithms", IBM J. Res. Dev. 31(2), 1987.
// Programs that are not one plain loop: docs/recogniser.md.
#pragma once

#include <cstdint>
#include <vector>

#include "spillway/runtime/exec/op_history.hpp"
#include "spillway/runtime/exec/period_finder.hpp"
#include "spillway/runtime/exec/record_path.hpp"
#include "spillway/runtime/exec/step_record.hpp"

namespace spillway::runtime {

/// The ops of one complete period as they ran last. See StepRecogniser::last_step.
struct RecordedStep {
  std::uint64_t first_op = 0;
  std::vector<std::uint64_t> signatures;    ///< one per op
  std::vector<std::uint32_t> touch_counts;  ///< one per op
  std::vector<std::uint64_t> storages;      ///< touched storages, op after op
};

/// Counters since construction.
struct RecogniserStatistics {
  std::uint64_t ops_off_path = 0;
  std::uint64_t departures = 0;          ///< times the stream left a record
  std::uint64_t branches = 0;            ///< departures that led straight to another record
  std::uint64_t resynchronisations = 0;  ///< returns to a record from off the path
  std::uint64_t loops_found = 0;
  std::uint64_t detours_recorded = 0;
  std::uint64_t mismatches = 0;  ///< touches that a plan had promised to another storage
  std::uint64_t refreshes = 0;   ///< plans computed anew from the latest two periods
};

class StepRecogniser {
 public:
  /// Ops that are remembered. A period must be seen twice, so the longest one that can be found is
  /// just below half of it: about a hundred steps of a 5,000-op model.
  /// The memory is taken only while the stream holds something that no record explains.
  static constexpr std::uint64_t kMaxHistoryOps = OpHistory::kMostOps;
  static constexpr std::uint64_t kMaxHistoryTouches = OpHistory::kMostTouches;
  /// Ops that must agree before a position is believed. Shorter windows occur by chance in models
  /// made of few kinds of op; longer ones delay every return to the path.
  static constexpr std::uint64_t kWindow = OpHistory::kWindow;
  /// Ops a loop without a boundary must hold before its "never used again" is believed: an inner
  /// loop (48 equal layers of 50 ops in a backward pass, a thousand time steps of 4 ops) looks just
  /// like training until it ends, and its saved activations only look dead.
  static constexpr std::uint64_t kProofOps = 4096;
  /// The same for next uses in its next pass: if the loop ends instead, only one pass was wrong.
  static constexpr std::uint64_t kRepeatProofOps = 512;

  /// An op begins. `signature` is a hash of whatever tells ops apart (name, input shapes);
  /// `boundary_hint` marks the op that ends a step, where the caller knows it.
  void begin_op(std::uint64_t signature, bool boundary_hint = false);

  /// The current op touches the storage. Returns the index of the next op that will touch it
  /// (greater than op_index()), kNeverUsed or kUnknownUse. `storage_id` must not be reused.
  /// `bytes`: that it takes of the device; 0: it cannot leave.
  std::uint64_t touch(std::uint64_t storage_id, Bytes bytes = {}, TimeNs again = 0);
  /// Whether the storage touched last is to be away until its next use: see choose_gaps.
  [[nodiscard]] bool leaves() const { return path_.leaves(); }

  /// Notes the most that the current op needed, in bytes. See demand().
  void note_demand(std::uint64_t bytes) {
    StepRecord* const record = path_.record();
    if (record == nullptr || !record->loop) return;
    if (record->demand.ops() == 0) record->demand = DemandProfile(record->ops.size());
    record->demand.set(path_.position(), bytes);
  }
  /// Notes the blocks that were opened for what the current op allocated. See opened().
  void note_opened(const std::vector<Bytes>& blocks) {
    StepRecord* const record = path_.record();
    if (record == nullptr || !record->loop) return;
    if (record->opened.ops() == 0) {
      if (blocks.empty()) return;
      record->opened = OpenedProfile(record->ops.size());
    }
    record->opened.set(path_.position(), blocks);
  }

  /// The needs of the ops of the loop, as noted in the latest pass; null off a loop, or before a
  /// whole pass was noted. The current op is op `place()` of it.
  const DemandProfile* demand() const {
    const StepRecord* const record = path_.record();
    return record != nullptr && record->demand.complete() ? &record->demand : nullptr;
  }
  std::uint64_t place() const { return path_.position(); }
  /// The blocks that are opened for the ops of the loop, as noted; none off a loop.
  const OpenedProfile& opened() const {
    static const OpenedProfile none;
    return path_.record() != nullptr ? path_.record()->opened : none;
  }

  /// Chooses what is away when, within that budget, for the loop whose demand is known. Does so now
  /// and then only, however often it is called.
  void choose_gaps(Bytes budget) { path_.record()->choose_gaps(steps_, budget); }

  /// Ops that memory is held for.
  std::uint64_t remembered_ops() const { return history_.op_capacity(); }
  /// Index of the current op; 0 before the first one.
  std::uint64_t op_index() const { return history_.ops() == 0 ? 0 : history_.ops() - 1; }
  bool on_path() const { return path_.record() != nullptr; }
  /// Length in ops of the loop the stream was in last; 0: none was found yet.
  std::uint64_t period() const { return period_; }
  /// Ops since the period (or the detour) began; 0 off the path. A period begins behind the last
  /// boundary in it, or, where there are none, where it was found.
  std::uint64_t position() const;
  /// Complete passes over a loop. A loop may hold several optimizer steps, see period().
  std::uint64_t steps_completed() const { return steps_; }
  RecogniserStatistics statistics() const;

  /// The latest complete period of the loop the stream is in; empty when it is in none, or has not
  /// yet stayed in it for a whole period. Copies, so not for the hot path.
  RecordedStep last_step() const;

 private:
  using Record = StepRecord;
  /// The place where the stream left the path.
  struct Departure {
    std::uint64_t record = 0;  ///< 0: it was never on one
    std::uint32_t position = 0;
    std::uint64_t signature = 0;
    std::uint64_t op = 0;
  };
  /// Ops [begin, end) that become a detour as soon as the next uses behind them were seen.
  struct PendingDetour {
    Departure from;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;  ///< 0: none pending
    std::uint64_t due = 0;
    std::uint64_t successor = 0;
    std::uint32_t successor_position = 0;
  };

  void extend_history();

  // Following a record.
  bool advance(std::uint64_t op, std::uint64_t signature);
  bool wrap(std::uint64_t op);
  void enter(Spot spot, std::uint64_t op);
  void depart(std::uint64_t op, std::uint64_t signature);
  bool follow_branch(std::uint64_t op, std::uint64_t signature);
  void finish_pass(std::uint64_t op);
  bool trusted(const Record& record) const;
  void believe(std::uint64_t op);

  // Finding one.
  void search(std::uint64_t op, std::uint64_t signature, bool was_on_path);
  Spot find_spot(std::uint64_t op, std::uint64_t signature) const;
  void regain(Spot spot, std::uint64_t op);
  void propose(std::uint64_t op);
  void attend(std::uint64_t op);
  void schedule(std::uint64_t op);
  bool worth_recording(const PeriodFinder::Candidate& period, std::uint64_t op) const;

  // Recording.
  void record_loop(std::uint64_t op, std::uint64_t length);
  void record_detour(std::uint64_t op);
  void add_branch(const Departure& from, std::uint64_t target, std::uint32_t target_position);
  void mark_inner_loops(Record& fresh);
  void drop_copies_of(std::uint64_t op, std::uint64_t length);

  // What the next op and touch are compared with.
  OpHistory history_;
  RecordPath path_;
  std::uint64_t op_first_touch_ = 0;  ///< of the current op
  std::uint64_t entered_at_ = 0;      ///< the op with which the stay on the record began

  PeriodFinder periods_;
  std::uint64_t attention_at_ = UINT64_MAX;
  std::uint64_t boundary_after_ = 0;  ///< op after the last hinted one; 0: none seen
  std::uint64_t period_ = 0;
  std::uint64_t steps_ = 0;
  bool wants_more_history_ = false;
  Departure departure_;
  PendingDetour pending_;
  StepRecordSet records_;
  RecogniserStatistics statistics_;  ///< mismatches are the path's
};

inline void StepRecogniser::begin_op(std::uint64_t signature, bool boundary_hint) {
  const std::uint64_t op = history_.ops();
  if (history_.ops_full()) [[unlikely]] {
    extend_history();
  }
  history_.add_op(signature);
  const bool was_on_path = on_path();
  if (!was_on_path || !advance(op, signature)) [[unlikely]] {
    search(op, signature, was_on_path);
  }
  op_first_touch_ = history_.touches();
  if (boundary_hint) {
    boundary_after_ = op + 1;
  }
  if (op >= attention_at_) [[unlikely]] {
    attend(op);
  }
}

inline bool StepRecogniser::advance(std::uint64_t op, std::uint64_t signature) {
  const bool counted = history_.touches() - op_first_touch_ == path_.op_touches();
  if (path_.next() && !wrap(op)) [[unlikely]] {
    return false;
  }
  return path_.begin_op() == signature && counted;
}

inline std::uint64_t StepRecogniser::touch(std::uint64_t storage_id, Bytes bytes, TimeNs again) {
  if (history_.touches_full()) [[unlikely]] {
    history_.extend_touches();
  }
  history_.add_touch(storage_id);
  return path_.touch(storage_id, history_.ops() - 1, bytes, again);
}

}  // namespace spillway::runtime
