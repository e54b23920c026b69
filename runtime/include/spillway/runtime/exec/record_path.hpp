// SPDX-License-Identifier: Apache-2.0
// The place on a record that the stream is at, and from it the next uses of what ops touch there.
//
//     record   ops    a     b   c   d          position counts ops
//              plan   0 1   2   -   3 4        cursor counts touches, and ends with the op's
//
// It follows one record and knows nothing of others: StepRecogniser decides which one, and where.
// See Note [Promises] in step_record.hpp for how an answer is checked.
//
// Refers to the record, which its owner must not drop. Single-threaded; `touch` throws
// std::bad_alloc in the first pass over a loop, nothing else does.
#pragma once

#include <cstdint>

#include "spillway/base/bytes.hpp"
#include "spillway/residency/victims.hpp"
#include "spillway/runtime/exec/step_record.hpp"

namespace spillway::runtime {

using residency::kNeverUsed;
using residency::kUnknownUse;

/// An op of a record; null: of none.
struct Spot {
  StepRecord* record = nullptr;
  std::uint32_t position = 0;
};

class RecordPath {
 public:
  /// Null off the path.
  [[nodiscard]] StepRecord* record() const { return record_; }
  /// The position of the current op in the record; off the path, where the stream left it.
  [[nodiscard]] std::uint32_t position() const { return position_; }
  /// The touches that the record has for the current op; 0 off the path.
  [[nodiscard]] std::uint32_t op_touches() const { return op_touches_; }

  /// The current op is at the spot, and promises of an earlier stay are void.
  void enter(Spot spot);
  void stop();

  /// An op begins. True if the record has no more: call restart(), enter() or stop() next.
  [[nodiscard]] bool next() { return ++position_ == record_->ops.size(); }
  /// A loop begins anew.
  void restart() { position_ = 0; }
  /// The signature that the record has for the op that began; its touches are answered next.
  std::uint64_t begin_op();

  /// The answer to the next touch of the current op `op`: a later op, kNeverUsed or kUnknownUse.
  /// The storage takes that many bytes of the device, or cannot leave: 0.
  std::uint64_t touch(std::uint64_t storage, std::uint64_t op, Bytes bytes = {}, TimeNs again = 0);
  /// Whether the storage touched last is away until its next use, by the record's GapPlan.
  [[nodiscard]] bool leaves() const { return leaves_; }

  /// "Never" is answered with `never`, and a next use in `horizon` or behind it with kUnknownUse.
  void believe(std::uint64_t never, std::uint64_t horizon) {
    never_ = never;
    horizon_ = horizon;
  }
  /// Promises made so far are void: the plan is another.
  void void_promises() { ++visit_; }

  /// Touches that a plan had promised to another storage, since construction.
  [[nodiscard]] std::uint64_t mismatches() const { return mismatches_; }
  /// A pass over the record is over: whether it broke a promise.
  bool end_pass();

 private:
  StepRecord* record_ = nullptr;
  StepRecord::Touch* plan_ = nullptr;
  std::uint32_t position_ = 0;
  std::uint32_t cursor_ = 0;      ///< flat index of the next touch
  std::uint32_t cursor_end_ = 0;  ///< of this op; equals cursor_ off the path
  std::uint32_t op_touches_ = 0;
  std::uint32_t visit_ = 0;
  bool leaves_ = false;
  std::uint64_t never_ = kUnknownUse;
  std::uint64_t horizon_ = 0;
  std::uint64_t mismatches_ = 0;
  std::uint64_t pass_mismatches_ = 0;  ///< when the pass began
};

inline void RecordPath::enter(Spot spot) {
  record_ = spot.record;
  plan_ = record_->plan.data();
  position_ = spot.position;
  begin_op();
  void_promises();
  pass_mismatches_ = mismatches_;
}

inline void RecordPath::stop() {
  record_ = nullptr;
  plan_ = nullptr;
  cursor_ = cursor_end_ = op_touches_ = 0;
}

inline std::uint64_t RecordPath::begin_op() {
  const StepRecord::Op& expected = record_->ops[position_];
  cursor_ = expected.first_touch;
  op_touches_ = expected.touch_count;
  cursor_end_ = cursor_ + op_touches_;
  return expected.signature;
}

inline std::uint64_t RecordPath::touch(std::uint64_t storage, std::uint64_t op, Bytes bytes,
                                       TimeNs again) {
  leaves_ = false;
  if (cursor_ == cursor_end_) return kUnknownUse;
  if (record_->loop) record_->gaps.note(cursor_, record_->plan.size(), bytes, again);
  const StepRecord::Touch& touched = plan_[cursor_++];
  if (touched.visit == visit_ && touched.expected != storage) [[unlikely]] {
    ++mismatches_;
  }
  if (touched.next != StepRecord::kNoTouch) {
    plan_[touched.next].expected = storage;
    plan_[touched.next].visit = visit_;
    leaves_ = record_->gaps.away_before(touched.next);
  }
  if (touched.distance == StepRecord::kNeverDistance) return never_;
  const std::uint64_t next = op + touched.distance;
  return next < horizon_ ? next : kUnknownUse;
}

inline bool RecordPath::end_pass() {
  const bool broke_one = mismatches_ != pass_mismatches_;
  pass_mismatches_ = mismatches_;
  return broke_one;
}

}  // namespace spillway::runtime
