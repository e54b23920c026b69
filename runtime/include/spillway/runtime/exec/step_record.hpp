// SPDX-License-Identifier: Apache-2.0
// A recorded stretch of ops, and for each touch in it how far away the next one of its storage is.
//
// A loop follows itself; a detour is followed by `successor`. Positions count ops, `plan` is
// indexed by touches, both from the record's beginning. A plain value; the recogniser owns it.
//
// Note [Promises]. On the path, touch t of storage x says which later touch of the record will be
// of x again, and leaves x's id there; that touch compares. So every prediction is checked, and a
// program whose storages begin to flow differently under the same ops is noticed within a period,
// for one store and one compare. `visit` tells promises of this stay on the record from old ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "spillway/runtime/exec/demand_profile.hpp"
#include "spillway/runtime/exec/gap_plan.hpp"
#include "spillway/runtime/exec/op_history.hpp"
#include "spillway/runtime/exec/opened_profile.hpp"

namespace spillway::runtime {

struct StepRecord {
  static constexpr std::uint32_t kNoTouch = UINT32_MAX;
  static constexpr std::uint32_t kNeverDistance = UINT32_MAX;

  struct Op {
    std::uint64_t signature;
    std::uint32_t first_touch;
    std::uint32_t touch_count;
  };
  struct Touch {
    std::uint64_t expected = 0;  ///< storage that was promised to this touch
    std::uint32_t visit = 0;     ///< stay on the record in which it was
    std::uint32_t distance = 0;  ///< ops to the next touch of the storage, or kNeverDistance
    std::uint32_t next = 0;      ///< the touch itself, if it lies in the record, or kNoTouch
  };
  /// The way that the stream took when it left the record here, so that the second time costs
  /// nothing.
  struct Branch {
    std::uint64_t signature;
    std::uint32_t position;
    std::uint32_t target_position;
    std::uint64_t target;
  };

  std::uint64_t number = 0;  ///< never reused, so a reference to a dropped record is just dead
  bool loop = false;
  bool has_boundary = false;
  bool inner = false;          ///< loop: a longer one holds it more than once
  bool complete = false;       ///< detour: the next uses behind its end were seen
  std::uint32_t origin = 0;    ///< position at which a period begins
  std::uint64_t ran_ops = 0;   ///< on this record, in all
  std::uint64_t held_ops = 0;  ///< since the last departure; kept once it sufficed as a proof
  std::uint64_t last_used = 0;
  std::uint64_t successor = 0;
  std::uint32_t successor_position = 0;
  std::uint32_t passes = 0;      ///< since the plan was computed
  std::uint32_t bad_passes = 0;  ///< the latest ones in a row with a broken promise
  std::uint32_t refresh_gap = 2;
  std::uint64_t probe = 0;  ///< hash of the window before its last op
  std::vector<Op> ops;
  std::vector<Touch> plan;
  DemandProfile demand;  ///< of loops; empty before the first note
  OpenedProfile opened;  ///< likewise
  GapPlan gaps;          ///< likewise
  std::vector<std::pair<std::uint64_t, std::uint32_t>> windows;  ///< hash, position; sorted
  std::vector<Branch> branches;
  std::size_t oldest_branch = 0;

  bool matches(std::uint64_t position, const OpHistory& history, std::uint64_t op) const {
    return ops[position].signature == history.signature(op) &&
           ops[position].touch_count == history.touch_count(op);
  }
  /// Copies ops [begin, end), without a plan.
  void copy_ops(const OpHistory& history, std::uint64_t begin, std::uint64_t end);
  /// Computes the next uses of the touches in the record's ops, which also ran from `begin` on, by
  /// what ran until `horizon`: for a loop two periods, so that gaps over its end are seen.
  void fill_plan(const OpHistory& history, std::uint64_t begin, std::uint64_t horizon);
  /// Chooses which storages are away in which of the plan's gaps, if that is due. Of a loop whose
  /// demand is known.
  void choose_gaps(std::uint64_t pass, Bytes budget);
  /// Adds it, or replaces the one at the same position and signature, or else the oldest.
  void add_branch(const Branch& branch, std::size_t most);
};

/// Storage -> its first touch behind the point that a backward walk has reached.
class NextTouchTable {
 public:
  struct Entry {
    std::uint64_t storage = 0;
    std::uint64_t touch = 0;
    std::uint64_t op = 0;
    bool used = false;
  };

  explicit NextTouchTable(std::uint64_t touches) : entries_(std::bit_ceil(2 * touches + 2)) {}

  Entry& at(std::uint64_t storage) {
    std::size_t slot = OpHistory::mix(storage, 0) & (entries_.size() - 1);
    while (entries_[slot].used && entries_[slot].storage != storage) {
      slot = (slot + 1) & (entries_.size() - 1);
    }
    return entries_[slot];
  }

 private:
  std::vector<Entry> entries_;
};

inline void StepRecord::copy_ops(const OpHistory& history, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t base = history.start(begin);
  ops.reserve(end - begin);
  for (std::uint64_t op = begin; op < end; ++op) {
    ops.push_back({history.signature(op), static_cast<std::uint32_t>(history.start(op) - base),
                   static_cast<std::uint32_t>(history.touch_count(op))});
    if (op >= OpHistory::kWindow && history.remembers(op - OpHistory::kWindow)) {
      windows.emplace_back(history.window_hash(op), static_cast<std::uint32_t>(op - begin));
    }
  }
  probe = windows.empty() ? 0 : windows.back().first;
  std::ranges::sort(windows);
  plan.resize(history.start(end) - base);
}

inline void StepRecord::fill_plan(const OpHistory& history, std::uint64_t begin,
                                  std::uint64_t horizon) {
  const std::uint64_t base = history.start(begin);
  NextTouchTable table(history.start(horizon) - base);
  for (std::uint64_t op = horizon; op-- > begin;) {
    const std::uint64_t first = history.start(op);
    const std::uint64_t last = history.start(op + 1);
    // All of the op's touches are answered before any is entered: the next use is another op's.
    for (std::uint64_t touch = first; op < begin + ops.size() && touch < last; ++touch) {
      const NextTouchTable::Entry& next = table.at(history.storage(touch));
      Touch& planned = plan[touch - base];
      planned.distance = next.used ? static_cast<std::uint32_t>(next.op - op) : kNeverDistance;
      const bool linked = next.used && (loop || next.touch - base < plan.size());
      planned.next =
          linked ? static_cast<std::uint32_t>((next.touch - base) % plan.size()) : kNoTouch;
    }
    for (std::uint64_t touch = first; touch < last; ++touch) {
      table.at(history.storage(touch)) = {history.storage(touch), touch, op, true};
    }
  }
}

inline void StepRecord::add_branch(const Branch& branch, std::size_t most) {
  const auto same = std::find_if(branches.begin(), branches.end(), [&](const Branch& known) {
    return known.position == branch.position && known.signature == branch.signature;
  });
  if (same != branches.end()) {
    *same = branch;
  } else if (branches.size() < most) {
    branches.push_back(branch);
  } else {
    branches[oldest_branch++ % most] = branch;
  }
}

/// All records of a recogniser. Bounded in number and in size; what was used least lately goes.
/// References stay valid until the record goes.
class StepRecordSet {
 public:
  /// Enough for train, eval and ragged steps of two models, with what lies between them. Detours
  /// are counted apart: a program full of interruptions must not push its loops out.
  static constexpr std::size_t kMaxLoops = 8;
  static constexpr std::size_t kMaxDetours = 8;

  const std::vector<std::unique_ptr<StepRecord>>& all() const { return records_; }
  /// Null if there is none, or no longer.
  StepRecord* find(std::uint64_t number) const;
  /// Records ops [begin, end), without a plan. Never drops `keep`.
  StepRecord& add(const OpHistory& history, std::uint64_t begin, std::uint64_t end, bool loop,
                  const StepRecord* keep);
  template <typename Predicate>
  void drop_if(Predicate predicate) {
    std::erase_if(records_, [&](const auto& record) { return predicate(*record); });
  }

 private:
  bool drop_one(std::uint64_t ops, std::uint64_t touches, bool loop, const StepRecord* keep);

  std::uint64_t last_number_ = 0;
  std::vector<std::unique_ptr<StepRecord>> records_;
};

inline StepRecord* StepRecordSet::find(std::uint64_t number) const {
  for (const auto& record : records_) {
    if (record->number == number) {
      return record.get();
    }
  }
  return nullptr;
}

/// Returns whether a record of that size needed, and got, room.
inline bool StepRecordSet::drop_one(std::uint64_t ops, std::uint64_t touches, bool loop,
                                    const StepRecord* keep) {
  std::size_t same_kind = 0;
  for (const auto& record : records_) {
    same_kind += record->loop == loop ? 1U : 0U;
    ops += record->ops.size();
    touches += record->plan.size();
  }
  const bool too_much = ops > OpHistory::kMostOps || touches > OpHistory::kMostTouches;
  if (!too_much && same_kind < (loop ? kMaxLoops : kMaxDetours)) {
    return false;
  }
  auto victim = records_.end();
  for (auto it = records_.begin(); it != records_.end(); ++it) {
    const bool may_go = it->get() != keep && (too_much || (*it)->loop == loop);
    if (may_go && (victim == records_.end() || (*it)->last_used < (*victim)->last_used)) {
      victim = it;
    }
  }
  if (victim == records_.end()) {
    return false;
  }
  records_.erase(victim);
  return true;
}

inline StepRecord& StepRecordSet::add(const OpHistory& history, std::uint64_t begin,
                                      std::uint64_t end, bool loop, const StepRecord* keep) {
  while (drop_one(end - begin, history.start(end) - history.start(begin), loop, keep)) {
  }
  records_.push_back(std::make_unique<StepRecord>());
  StepRecord& record = *records_.back();
  record.number = ++last_number_;
  record.loop = loop;
  record.last_used = end;
  record.copy_ops(history, begin, end);
  return record;
}

}  // namespace spillway::runtime
