// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/step_recogniser.hpp"

#include <algorithm>
#include <utility>

namespace spillway::runtime {
namespace {

/// Shorter repetitions are taken several at a time: runs of equal ops are everywhere, and a window
/// must not reach back beyond the period before.
constexpr std::uint64_t kMinPeriod = StepRecogniser::kWindow;
constexpr std::size_t kMaxCandidates = 8;
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
/// Ops compared backwards for candidates, per op of the stream: bounds the cost of streams that
/// nearly repeat at many distances.
constexpr std::uint64_t kScansPerOp = 4;
/// The same for telling whether a loop is known in another rotation, per op of the loop. Giving up
/// leaves a second copy of it, which does no harm.
constexpr std::uint64_t kComparesPerOp = 64;
/// Places looked at where a window occurs all over a record.
constexpr std::uint32_t kMaxSpots = 4096;

}  // namespace

StepRecogniser::StepRecogniser() : last_window_(OpHistory::kFirstOps) {}

std::uint64_t StepRecogniser::position() const {
  if (path_ == nullptr) {
    return 0;
  }
  const std::uint64_t length = path_->ops.size();
  return (position_ + length - path_->origin) % length;
}

RecordedStep StepRecogniser::last_step() const {
  RecordedStep step;
  if (path_ == nullptr || !path_->loop) {
    return step;
  }
  const std::uint64_t length = path_->ops.size();
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
  const bool unexplained = path_ == nullptr || departed || wants_more_history_;
  if (capacity == kMaxHistoryOps || !unexplained) {
    history_.discard_ops();
    return;
  }
  wants_more_history_ = false;
  history_.grow_ops();
  std::vector<std::uint64_t> windows(history_.op_capacity());
  windows.swap(last_window_);
  for (const std::uint64_t slot : windows) {
    if (slot > kWindow && history_.remembers(slot - 1 - kWindow)) {
      std::uint64_t& target = last_window_[place_key(slot - 1) & (history_.op_capacity() - 1)];
      target = std::max(target, slot);
    }
  }
}

// ---- Following a record -------------------------------------------------------------------------

void StepRecogniser::stop() {
  path_ = nullptr;
  plan_ = nullptr;
  cursor_ = cursor_end_ = op_touches_ = 0;
}

void StepRecogniser::enter(Spot spot, std::uint64_t op) {
  path_ = spot.record;
  plan_ = path_->plan.data();
  position_ = spot.position;
  const Record::Op& current = path_->ops[position_];
  cursor_ = current.first_touch;
  op_touches_ = current.touch_count;
  cursor_end_ = cursor_ + op_touches_;
  ++visit_;
  entered_at_ = op;
  pass_mismatches_ = statistics_.mismatches;
  path_->last_used = op;
  if (path_->loop) {
    period_ = path_->ops.size();
  }
  believe(op);
}

/// Sets how far the record is believed, at its current position in `op`: an unproven loop to its
/// end, where it may turn out to have been an inner one.
void StepRecogniser::believe(std::uint64_t op) {
  const Record& record = *path_;
  const bool repeats = !record.inner && record.ran_ops >= kRepeatProofOps;
  const bool sure = trusted(record);
  never_ = sure ? kNeverUsed : kUnknownUse;
  const std::uint64_t end = op + record.ops.size() - position_;
  horizon_ = sure || repeats || !record.loop ? UINT64_MAX : end;
}

/// The record ran out before `op`. Returns false if nothing is known to follow.
bool StepRecogniser::wrap(std::uint64_t op) {
  finish_pass(op);
  if (path_->loop) {
    position_ = 0;
    believe(op);
    return true;
  }
  Record* next = records_.find(path_->successor);
  if (next == nullptr) {
    stop();
    return false;
  }
  enter({next, path_->successor_position}, op);
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
  Record& record = *path_;
  const std::uint64_t length = record.ops.size();
  record.last_used = op;
  record.bad_passes = statistics_.mismatches == pass_mismatches_ ? 0 : record.bad_passes + 1;
  pass_mismatches_ = statistics_.mismatches;
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
    ++visit_;
    ++statistics_.refreshes;
  }
}

/// The stream ran differently from the record at `position_`.
void StepRecogniser::depart(std::uint64_t op, std::uint64_t signature) {
  ++statistics_.departures;
  if (pending_.end != 0) {
    record_detour(op);
  }
  if (path_ != nullptr && path_->held_ops < kProofOps) {
    path_->held_ops = 0;
  }
  departure_ = {path_ == nullptr ? 0 : path_->number, position_, signature, op};
}

bool StepRecogniser::follow_branch(std::uint64_t op, std::uint64_t signature) {
  if (path_ == nullptr) {
    return false;
  }
  for (const Record::Branch& branch : path_->branches) {
    if (branch.position != position_ || branch.signature != signature) {
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
    stop();
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
StepRecogniser::Spot StepRecogniser::find_spot(std::uint64_t op, std::uint64_t signature) const {
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

std::uint64_t StepRecogniser::place_key(std::uint64_t op) const {
  return OpHistory::mix(history_.window_hash(op), history_.signature(op));
}

/// Notes that `op` stood here behind its window, and takes the distance to where both stood last
/// for a candidate period. The op belongs to it: at a departure the window is nothing special.
void StepRecogniser::propose(std::uint64_t op) {
  if (op < kWindow) {
    return;
  }
  std::uint64_t& slot = last_window_[place_key(op) & (history_.op_capacity() - 1)];
  const std::uint64_t last = slot;
  slot = op + 1;
  if (last <= kWindow || !history_.remembers(last - 1 - kWindow) ||
      history_.signature(last - 1) != history_.signature(op) ||
      !history_.same_window(last - 1, op)) {
    return;
  }
  std::uint64_t distance = op - (last - 1);
  distance *= (kMinPeriod + distance - 1) / distance;
  auto same = std::find_if(candidates_.begin(), candidates_.end(),
                           [&](const Candidate& c) { return c.distance == distance; });
  if (same != candidates_.end()) {
    if (extend_run(*same, op)) {
      return;
    }
    candidates_.erase(same);
  }
  std::uint64_t begin = op;
  while (op - begin < distance && begin > distance && history_.remembers(begin - 1 - distance) &&
         scanned_ < kScansPerOp * op && history_.same_op(begin - 1, begin - 1 - distance)) {
    --begin;
    ++scanned_;
  }
  if (candidates_.size() == kMaxCandidates) {
    std::erase_if(candidates_, [&](Candidate& c) { return !extend_run(c, op); });
  }
  if (candidates_.size() == kMaxCandidates) {
    candidates_.erase(std::ranges::max_element(
        candidates_, {}, [](const Candidate& c) { return c.run_begin + c.distance; }));
  }
  candidates_.push_back({distance, begin, op});
  schedule(op);
}

bool StepRecogniser::extend_run(Candidate& candidate, std::uint64_t op) const {
  while (candidate.run_end < op && history_.remembers(candidate.run_end - candidate.distance) &&
         history_.same_op(candidate.run_end, candidate.run_end - candidate.distance)) {
    ++candidate.run_end;
  }
  return candidate.run_end == op;
}

void StepRecogniser::schedule(std::uint64_t op) {
  attention_at_ = pending_.end != 0 ? pending_.due : UINT64_MAX;
  for (const Candidate& candidate : candidates_) {
    attention_at_ = std::min(attention_at_, candidate.run_begin + candidate.distance);
  }
  attention_at_ = std::max(attention_at_, op);
}

void StepRecogniser::attend(std::uint64_t op) {
  if (pending_.end != 0 && op >= pending_.due) {
    record_detour(op);
  }
  check_candidates(op);
  schedule(op + 1);
}

void StepRecogniser::check_candidates(std::uint64_t op) {
  std::erase_if(candidates_, [&](Candidate& c) { return !extend_run(c, op); });
  for (std::size_t i = 0; i < candidates_.size();) {
    const Candidate candidate = candidates_[i];
    if (op - candidate.run_begin < candidate.distance) {
      ++i;
      continue;
    }
    candidates_.erase(candidates_.begin() + static_cast<std::ptrdiff_t>(i));
    if (worth_recording(candidate, op)) {
      record_loop(op, candidate.distance);
    }
  }
}

/// On the path only a longer loop that explains why the stream left a record is news: after any
/// hiccup a plain loop also repeats at each multiple of its length.
bool StepRecogniser::worth_recording(const Candidate& candidate, std::uint64_t op) const {
  if (path_ == nullptr) {
    return true;
  }
  return candidate.distance > period_ && departure_.op + candidate.distance >= op &&
         departure_.op >= candidate.run_begin;
}

// ---- Recording ----------------------------------------------------------------------------------

/// A loop whose windows all occur several times in it cannot be found by them, and is found anew.
void StepRecogniser::drop_copies_of(std::uint64_t op, std::uint64_t length) {
  records_.drop_if([&](const Record& record) {
    if (!record.loop || record.ops.size() != length || &record == path_) {
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
  Record& record = records_.add(history_, op - length, op, true, path_);
  record.fill_plan(history_, op - 2 * length, op);
  ++statistics_.loops_found;
  record.ran_ops = record.held_ops = 2 * length;
  if (boundary_after_ + length > op) {
    record.has_boundary = true;
    record.origin = static_cast<std::uint32_t>((boundary_after_ + length - op) % length);
  }
  mark_inner_loops(record);
  std::erase_if(candidates_, [&](const Candidate& c) { return c.distance <= length; });
  const std::uint64_t signature = history_.signature(op);
  if (record.ops[0].signature != signature) {
    if (path_ == nullptr) {
      departure_ = {record.number, 0, signature, op};
    }
    return;
  }
  if (path_ == nullptr) {
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
  Record& record = records_.add(history_, pending.begin, pending.end, false, path_);
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
