// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/period_finder.hpp"

#include <algorithm>

namespace spillway::runtime {
namespace {

constexpr std::uint64_t kWindow = OpHistory::kWindow;
/// Shorter repetitions are taken several at a time: runs of equal ops are everywhere, and a window
/// must not reach back beyond the period before.
constexpr std::uint64_t kMinPeriod = kWindow;
constexpr std::size_t kMaxCandidates = 8;
/// Ops compared backwards for candidates, per op of the stream: bounds the cost of streams that
/// nearly repeat at many distances.
constexpr std::uint64_t kScansPerOp = 4;

std::size_t slot_of(const OpHistory& history, std::uint64_t op) {
  const std::uint64_t key = OpHistory::mix(history.window_hash(op), history.signature(op));
  return key & (history.op_capacity() - 1);
}

}  // namespace

PeriodFinder::PeriodFinder() : last_window_(OpHistory::kFirstOps) {}

void PeriodFinder::grow(const OpHistory& history) {
  std::vector<std::uint64_t> windows(history.op_capacity());
  windows.swap(last_window_);
  for (const std::uint64_t slot : windows) {
    if (slot > kWindow && history.remembers(slot - 1 - kWindow)) {
      std::uint64_t& target = last_window_[slot_of(history, slot - 1)];
      target = std::max(target, slot);
    }
  }
}

bool PeriodFinder::note(const OpHistory& history, std::uint64_t op) {
  if (op < kWindow) {
    return false;
  }
  std::uint64_t& slot = last_window_[slot_of(history, op)];
  const std::uint64_t last = slot;
  slot = op + 1;
  if (last <= kWindow || !history.remembers(last - 1 - kWindow) ||
      history.signature(last - 1) != history.signature(op) || !history.same_window(last - 1, op)) {
    return false;
  }
  std::uint64_t distance = op - (last - 1);
  distance *= (kMinPeriod + distance - 1) / distance;
  auto same = std::ranges::find(candidates_, distance, &Candidate::distance);
  if (same != candidates_.end()) {
    if (extend_run(history, *same, op)) {
      return false;
    }
    candidates_.erase(same);
  }
  std::uint64_t begin = op;
  while (op - begin < distance && begin > distance && history.remembers(begin - 1 - distance) &&
         scanned_ < kScansPerOp * op && history.same_op(begin - 1, begin - 1 - distance)) {
    --begin;
    ++scanned_;
  }
  if (candidates_.size() == kMaxCandidates) {
    drop_ended(history, op);
  }
  if (candidates_.size() == kMaxCandidates) {
    candidates_.erase(std::ranges::max_element(
        candidates_, {}, [](const Candidate& c) { return c.run_begin + c.distance; }));
  }
  candidates_.push_back({distance, begin, op});
  return true;
}

bool PeriodFinder::extend_run(const OpHistory& history, Candidate& candidate, std::uint64_t op) {
  while (candidate.run_end < op && history.remembers(candidate.run_end - candidate.distance) &&
         history.same_op(candidate.run_end, candidate.run_end - candidate.distance)) {
    ++candidate.run_end;
  }
  return candidate.run_end == op;
}

void PeriodFinder::drop_ended(const OpHistory& history, std::uint64_t op) {
  std::erase_if(candidates_, [&](Candidate& c) { return !extend_run(history, c, op); });
}

void PeriodFinder::drop_up_to(std::uint64_t distance) {
  std::erase_if(candidates_, [&](const Candidate& c) { return c.distance <= distance; });
}

std::uint64_t PeriodFinder::next_due() const {
  std::uint64_t due = UINT64_MAX;
  for (const Candidate& candidate : candidates_) {
    due = std::min(due, candidate.run_begin + candidate.distance);
  }
  return due;
}

}  // namespace spillway::runtime
