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
    Run& known = run_locked(run);
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
    Run* const known = has_gone_locked(run) ? nullptr : &run_locked(run);
    if (known != nullptr && known->time < time) {
      known->waits.push_back({.ticket = ++last_ticket_, .time = time, .due = std::move(due)});
      return last_ticket_;
    }
  }
  due();
  return 0;
}

bool SwapClock::cancel(Ticket ticket) {
  std::function<void()> gone;  // destroyed with no lock held
  const std::lock_guard lock(mutex_);
  for (const std::int64_t step : with_runs_) {
    for (auto& [run, known] : steps_.at(step).runs) {
      const auto found = std::ranges::find(known.waits, ticket, &Wait::ticket);
      if (found == known.waits.end()) continue;
      gone = std::move(found->due);
      known.waits.erase(found);
      return true;
    }
  }
  return false;
}

std::size_t SwapClock::waiting() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const std::int64_t step : with_runs_) {
    for (const auto& [run, known] : steps_.at(step).runs) count += known.waits.size();
  }
  return count;
}

SwapClock::Run& SwapClock::run_locked(const ClockRun& run) {
  Step& step = steps_[run.step];
  if (!step.listed) {
    with_runs_.push_back(run.step);
    step.listed = true;
  }
  const auto [known, fresh] = step.runs.try_emplace(run);
  if (fresh) ++runs_;
  return known->second;
}

bool SwapClock::has_gone_locked(const ClockRun& run) const {
  const auto step = steps_.find(run.step);
  if (step == steps_.end()) return false;
  const std::optional<ClockRun>& last_gone = step->second.last_gone;
  return last_gone && run <= *last_gone && !step->second.runs.contains(run);
}

void SwapClock::remove_old_runs_locked() {
  for (auto number = with_runs_.begin(); runs_ > kMostRuns && number != with_runs_.end();) {
    Step& step = steps_.at(*number);
    remove_old_runs_locked(step);
    if (!step.runs.empty()) {
      ++number;
      continue;
    }
    step.listed = false;
    step.left = ++left_;
    without_.emplace_back(*number, step.left);
    number = with_runs_.erase(number);
  }
  remove_old_steps_locked();
}

void SwapClock::remove_old_runs_locked(Step& step) {
  for (auto run = step.runs.begin(); runs_ > kMostRuns && run != step.runs.end();) {
    if (!run->second.waits.empty()) {
      ++run;
      continue;
    }
    step.last_gone = std::max(step.last_gone, std::optional(run->first));
    run = step.runs.erase(run);
    --runs_;
  }
}

void SwapClock::remove_old_steps_locked() {
  while (without_.size() > kMostWithout) {
    const auto& [number, left] = without_.front();
    const auto step = steps_.find(number);  // which may have had runs again since
    if (step != steps_.end() && !step->second.listed && step->second.left == left) {
      steps_.erase(step);
    }
    without_.pop_front();
  }
}

}  // namespace spillway::tf
