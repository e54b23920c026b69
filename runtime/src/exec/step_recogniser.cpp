// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/step_recogniser.hpp"

#include <algorithm>
#include <utility>

namespace spillway::runtime {
namespace {

constexpr std::size_t kMaxBranches = 16;
/// A longer stretch between two loops is another program, not a variant of the step.
constexpr std::uint64_t kMaxDetourOps = 1U << 16;
/// A position that several places of a record could be is believed only this near (in ops) to
/// where the stream left it, and this soon after.
constexpr std::uint64_t kNearOps = 64;
constexpr std::uint64_t kSoonOps = 256;
/// Passes between two computations of a plan that breaks no promise. Its "never used again" is
/// checked by nothing else; at 50 ns per touch this adds less than 1 ns to each.
constexpr std::uint32_t kAuditPasses = 64;
/// Ops compared to tell whether a loop is known in another rotation, per op of the loop. Giving up
/// leaves a second copy of it, which does no harm.
constexpr std::uint64_t kComparesPerOp = 64;
/// Places looked at where a window occurs all over a record.
constexpr std::uint32_t kMaxSpots = 4096;

}  // namespace

std::uint64_t StepRecogniser::position() const {
  const Record* record = path_.record();
  if (record == nullptr) {
    return 0;
  }
  const std::uint64_t length = record->ops.size();
  return (path_.position() + length - record->origin) % length;
}

RecogniserStatistics StepRecogniser::statistics() const {
  RecogniserStatistics statistics = statistics_;
  statistics.mismatches = path_.mismatches();
  return statistics;
}

RecordedStep StepRecogniser::last_step() const {
  RecordedStep step;
  const Record* record = path_.record();
  if (record == nullptr || !record->loop) {
    return step;
  }
  const std::uint64_t length = record->ops.size();
  const std::uint64_t end = op_index() - position();
  if (end < entered_at_ + length || !history_.remembers_touches(end - length)) {
    return step;
  }
  step.first_op = end - length;
  for (std::uint64_t op = step.first_op; op < end; ++op) {
    step.signatures.push_back(history_.signature(op));
    step.touch_counts.push_back(static_cast<std::uint32_t>(history_.touch_count(op)));
  }
  for (std::uint64_t touch = history_.start(step.first_op); touch < history_.start(end); ++touch) {
    step.storages.push_back(history_.storage(touch));
  }
  return step;
}

/// Called when the next op would overwrite one: takes more memory only where the later half of the
/// remembered ops holds something that no record explains yet. What is older did not come again
/// within a time that the rest could have shown as a period; what comes again rarely is asked about
/// again whenever the ring is full.
void StepRecogniser::extend_history() {
  const std::uint64_t op = history_.ops();
  const std::uint64_t capacity = history_.op_capacity();
  const bool departed = departure_.record != 0 && departure_.op + capacity / 2 > op;
  const bool unexplained = !on_path() || departed || wants_more_history_;
  if (capacity == kMaxHistoryOps || !unexplained) {
    history_.discard_ops();
    return;
  }
  wants_more_history_ = false;
  history_.grow_ops();
  periods_.grow(history_);
}

// ---- Following a record -------------------------------------------------------------------------

void StepRecogniser::enter(Spot spot, std::uint64_t op) {
  path_.enter(spot);
  entered_at_ = op;
  spot.record->last_used = op;
  if (spot.record->loop) {
    period_ = spot.record->ops.size();
  }
  believe(op);
}

/// Sets how far the record is believed, at its current position in `op`: an unproven loop to its
/// end, where it may turn out to have been an inner one.
void StepRecogniser::believe(std::uint64_t op) {
  const Record& record = *path_.record();
  const bool repeats = !record.inner && record.ran_ops >= kRepeatProofOps;
  const bool sure = trusted(record);
  const std::uint64_t end = op + record.ops.size() - path_.position();
  path_.believe(sure ? kNeverUsed : kUnknownUse,
                sure || repeats || !record.loop ? UINT64_MAX : end);
}

/// The record ran out before `op`. Returns false if nothing is known to follow.
bool StepRecogniser::wrap(std::uint64_t op) {
  finish_pass(op);
  const Record& record = *path_.record();
  if (record.loop) {
    path_.restart();
    believe(op);
    return true;
  }
  Record* next = records_.find(record.successor);
  if (next == nullptr) {
    path_.stop();
    return false;
  }
  enter({next, record.successor_position}, op);
  return true;
}

bool StepRecogniser::trusted(const Record& record) const {
  if (record.loop) {
    return record.has_boundary || record.held_ops >= kProofOps;
  }
  const Record* next = records_.find(record.successor);
  return record.complete && next != nullptr && next->loop && trusted(*next);
}

void StepRecogniser::finish_pass(std::uint64_t op) {
  Record& record = *path_.record();
  const std::uint64_t length = record.ops.size();
  record.last_used = op;
  record.bad_passes = path_.end_pass() ? record.bad_passes + 1 : 0;
  ++record.passes;
  if (!record.loop) {
    return;
  }
  ++steps_;
  record.ran_ops += length;
  record.held_ops += length;
  if (boundary_after_ + length > op && boundary_after_ != 0) {
    record.has_boundary = true;
    record.origin = static_cast<std::uint32_t>((boundary_after_ + length - op) % length);
  }
  const bool broken = record.bad_passes >= 2 && record.passes >= record.refresh_gap;
  const bool stayed = op >= entered_at_ + 2 * length && history_.remembers_touches(op - 2 * length);
  if ((broken || record.passes >= kAuditPasses) && stayed) {
    // A program whose storages never settle would pay for a new plan in every pass.
    record.refresh_gap = broken ? std::min(2 * record.refresh_gap, kAuditPasses) : 2;
    record.passes = record.bad_passes = 0;
    record.fill_plan(history_, op - 2 * length, op);
    record.gaps.forget();
    path_.void_promises();
    ++statistics_.refreshes;
  }
}

/// The stream ran differently from the record at its position.
void StepRecogniser::depart(std::uint64_t op, std::uint64_t signature) {
  ++statistics_.departures;
  if (pending_.end != 0) {
    record_detour(op);
  }
  Record* record = path_.record();
  if (record != nullptr && record->held_ops < kProofOps) {
    record->held_ops = 0;
  }
  departure_ = {record == nullptr ? 0 : record->number, path_.position(), signature, op};
}

bool StepRecogniser::follow_branch(std::uint64_t op, std::uint64_t signature) {
  if (!on_path()) {
    return false;
  }
  for (const Record::Branch& branch : path_.record()->branches) {
    if (branch.position != path_.position() || branch.signature != signature) {
      continue;
    }
    Record* target = records_.find(branch.target);
    if (target != nullptr && target->ops[branch.target_position].signature == signature) {
      ++statistics_.branches;
      enter({target, branch.target_position}, op);
      return true;
    }
  }
  return false;
}

// ---- Finding a record ---------------------------------------------------------------------------

void StepRecogniser::search(std::uint64_t op, std::uint64_t signature, bool was_on_path) {
  if (was_on_path) {
    depart(op, signature);
    if (follow_branch(op, signature)) {
      propose(op);
      return;
    }
    path_.stop();
  }
  ++statistics_.ops_off_path;
  if (op < kWindow) {
    return;
  }
  propose(op);
  const Spot spot = find_spot(op, signature);
  if (spot.record != nullptr) {
    ++statistics_.resynchronisations;
    regain(spot, op);
  }
}

/// A place whose preceding window is the stream's. See docs/recogniser.md, "Coming back".
Spot StepRecogniser::find_spot(std::uint64_t op, std::uint64_t signature) const {
  const std::uint64_t hash = history_.window_hash(op);
  const bool soon = op - departure_.op <= kSoonOps;
  Spot best;
  std::uint64_t best_rank = 0;
  for (const auto& record : records_.all()) {
    std::uint32_t found = 0;
    Spot spot;
    std::uint64_t spot_error = UINT64_MAX;
    auto it = std::lower_bound(record->windows.begin(), record->windows.end(),
                               std::pair<std::uint64_t, std::uint32_t>{hash, 0});
    for (; it != record->windows.end() && it->first == hash && found < kMaxSpots; ++it) {
      if (record->ops[it->second].signature != signature) {
        continue;
      }
      ++found;
      const std::uint64_t expected = departure_.position + kWindow;
      const std::uint64_t error =
          it->second > expected ? it->second - expected : expected - it->second;
      if (error < spot_error) {
        spot = {record.get(), it->second};
        spot_error = error;
      }
    }
    const bool left_here = record->number == departure_.record;
    const bool near = left_here && soon && spot_error <= kNearOps;
    if (found == 0 || (found > 1 && !near)) {
      continue;
    }
    const std::uint64_t rank = 1 + (near ? 8U : 0U) + (record->inner ? 0U : 4U) +
                               (left_here ? 2U : 0U) + (record->loop ? 1U : 0U);
    if (rank > best_rank) {
      best_rank = rank;
      best = spot;
    }
  }
  return best;
}

/// Back on a record. What ran since the departure becomes a branch, or a detour and a branch.
void StepRecogniser::regain(Spot spot, std::uint64_t op) {
  const std::uint64_t away = op - departure_.op;
  if (departure_.record != 0 && away <= kMaxDetourOps && away < history_.op_capacity() / 2) {
    const Record& record = *spot.record;
    std::uint64_t end = op;
    std::uint32_t position = spot.position;
    while (end > departure_.op && (position > 0 || record.loop)) {
      const std::size_t before = position == 0 ? record.ops.size() - 1 : position - 1;
      if (!record.matches(before, history_, end - 1)) {
        break;
      }
      position = static_cast<std::uint32_t>(before);
      --end;
    }
    if (end == departure_.op) {
      add_branch(departure_, record.number, position);
    } else {
      pending_ = {departure_,    departure_.op, end, end + std::max(period_, record.ops.size()),
                  record.number, position};
      schedule(op);
    }
  }
  enter(spot, op);
}

void StepRecogniser::propose(std::uint64_t op) {
  if (periods_.note(history_, op)) {
    schedule(op);
  }
}

void StepRecogniser::schedule(std::uint64_t op) {
  const std::uint64_t detour_due = pending_.end != 0 ? pending_.due : UINT64_MAX;
  attention_at_ = std::max(std::min(detour_due, periods_.next_due()), op);
}

void StepRecogniser::attend(std::uint64_t op) {
  if (pending_.end != 0 && op >= pending_.due) {
    record_detour(op);
  }
  periods_.take_due(history_, op, [&](const PeriodFinder::Candidate& period) {
    if (worth_recording(period, op)) {
      record_loop(op, period.distance);
    }
  });
  schedule(op + 1);
}

/// On the path only a longer loop that explains why the stream left a record is news: after any
/// hiccup a plain loop also repeats at each multiple of its length.
bool StepRecogniser::worth_recording(const PeriodFinder::Candidate& period,
                                     std::uint64_t op) const {
  if (!on_path()) {
    return true;
  }
  return period.distance > period_ && departure_.op + period.distance >= op &&
         departure_.op >= period.run_begin;
}

// ---- Recording ----------------------------------------------------------------------------------

/// A loop whose windows all occur several times in it cannot be found by them, and is found anew.
void StepRecogniser::drop_copies_of(std::uint64_t op, std::uint64_t length) {
  records_.drop_if([&](const Record& record) {
    if (!record.loop || record.ops.size() != length || &record == path_.record()) {
      return false;
    }
    std::uint64_t compared = 0;
    for (std::uint64_t shift = 0; shift < length && compared < kComparesPerOp * length; ++shift) {
      std::uint64_t same = 0;
      while (same < length &&
             record.matches((shift + same) % length, history_, op - length + same)) {
        ++same;
      }
      if (same == length) {
        return true;
      }
      compared += same + 1;
    }
    return false;
  });
}

void StepRecogniser::record_loop(std::uint64_t op, std::uint64_t length) {
  if (2 * length + 1 >= history_.op_capacity() || op < 2 * length ||
      !history_.remembers_touches(op - 2 * length)) {
    wants_more_history_ = true;
    return;
  }
  drop_copies_of(op, length);
  Record& record = records_.add(history_, op - length, op, true, path_.record());
  record.fill_plan(history_, op - 2 * length, op);
  ++statistics_.loops_found;
  record.ran_ops = record.held_ops = 2 * length;
  if (boundary_after_ + length > op) {
    record.has_boundary = true;
    record.origin = static_cast<std::uint32_t>((boundary_after_ + length - op) % length);
  }
  mark_inner_loops(record);
  periods_.drop_up_to(length);
  const std::uint64_t signature = history_.signature(op);
  if (record.ops[0].signature != signature) {
    if (!on_path()) {
      departure_ = {record.number, 0, signature, op};
    }
    return;
  }
  if (!on_path()) {
    regain({&record, 0}, op);
  } else {
    enter({&record, 0}, op);
  }
  entered_at_ = op - 2 * length;
}

void StepRecogniser::mark_inner_loops(Record& fresh) {
  for (const auto& other : records_.all()) {
    if (!other->loop || other.get() == &fresh) {
      continue;
    }
    const bool longer = other->ops.size() > fresh.ops.size();
    Record& outer = longer ? *other : fresh;
    Record& inner = longer ? fresh : *other;
    const auto times = std::ranges::count(outer.windows, inner.probe,
                                          &std::pair<std::uint64_t, std::uint32_t>::first);
    inner.inner = inner.inner || times >= 2;
  }
}

void StepRecogniser::record_detour(std::uint64_t op) {
  const PendingDetour pending = pending_;
  pending_ = {};
  if (pending.begin < kWindow || !history_.remembers_touches(pending.begin - kWindow)) {
    return;
  }
  Record& record = records_.add(history_, pending.begin, pending.end, false, path_.record());
  record.complete = op >= pending.due;
  record.successor = pending.successor;
  record.successor_position = pending.successor_position;
  record.fill_plan(history_, pending.begin, op);
  ++statistics_.detours_recorded;
  add_branch(pending.from, record.number, 0);
}

void StepRecogniser::add_branch(const Departure& from, std::uint64_t target,
                                std::uint32_t target_position) {
  Record* record = records_.find(from.record);
  if (record != nullptr) {
    record->add_branch({from.signature, from.position, target_position, target}, kMaxBranches);
  }
}

}  // namespace spillway::runtime
