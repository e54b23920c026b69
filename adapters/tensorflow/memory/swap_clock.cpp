// SPDX-License-Identifier: Apache-2.0
#include "swap_clock.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace spillway::tf {

void SwapClock::tick(const ClockRun& run, std::uint64_t time) {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    Run& known = runs_[run];
    known.time = std::max(known.time, time);
    for (auto wait = known.waits.begin(); wait != known.waits.end();) {
      if (wait->time > known.time) {
        ++wait;
        continue;
      }
      due.push_back(std::move(wait->due));
      wait = known.waits.erase(wait);
    }
    remove_old_runs_locked();
  }
  for (const auto& begin : due) begin();
}

SwapClock::Ticket SwapClock::wait_until(const ClockRun& run, std::uint64_t time,
                                        std::function<void()> due) {
  if (time != 0) {
    const std::lock_guard lock(mutex_);
    if (!has_gone_locked(run) && runs_[run].time < time) {
      runs_[run].waits.push_back({.ticket = ++last_ticket_, .time = time, .due = std::move(due)});
      return last_ticket_;
    }
  }
  due();
  return 0;
}

bool SwapClock::cancel(Ticket ticket) {
  std::function<void()> gone;  // destroyed with no lock held
  const std::lock_guard lock(mutex_);
  for (auto& [run, known] : runs_) {
    const auto found = std::ranges::find(known.waits, ticket, &Wait::ticket);
    if (found == known.waits.end()) continue;
    gone = std::move(found->due);
    known.waits.erase(found);
    return true;
  }
  return false;
}

std::size_t SwapClock::waiting() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& [run, known] : runs_) count += known.waits.size();
  return count;
}

void SwapClock::remove_old_runs_locked() {
  for (auto run = runs_.begin(); runs_.size() > kMostRuns && run != runs_.end();) {
    if (!run->second.waits.empty()) {
      ++run;
      continue;
    }
    last_gone_ = std::max(last_gone_, std::optional(run->first));
    run = runs_.erase(run);
  }
}

bool SwapClock::has_gone_locked(const ClockRun& run) const {
  return last_gone_ && run <= *last_gone_ && !runs_.contains(run);
}

}  // namespace spillway::tf
