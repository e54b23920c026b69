// SPDX-License-Identifier: Apache-2.0
#include "run_profile.hpp"

#include <algorithm>
#include <utility>

#include "find_allocation.hpp"

namespace spillway::tf {

Bytes RunProfile::peak() const {
  Bytes most{};
  for (const ProfiledOp& op : ops) most = std::max(most, op.peak);
  return most;
}

RunProfiler::OpenOp& RunProfiler::open_op() {
  thread_local OpenOp op;
  return op;
}

void RunProfiler::watch(std::span<const std::string> nodes) {
  const std::lock_guard lock(mutex_);
  nodes_.insert(nodes.begin(), nodes.end());
}

void RunProfiler::start(std::uint64_t first_hole, std::uint64_t holes) {
  const std::lock_guard lock(mutex_);
  first_hole_ = first_hole;
  holes_ = holes;
  finished_.reset();
  begin_anew_locked();
  on_.store(true);
}

void RunProfiler::begin_anew_locked() {
  ++run_;  // ops that are open belong to a run that nobody measures any more
  forget_run_locked();
  step_.reset();
  skips_ = true;
}

void RunProfiler::after_fork(bool in_child) {
  if (in_child) begin_anew_locked();
  mutex_.unlock();
}

std::optional<RunProfile> RunProfiler::take() {
  if (watches()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return std::exchange(finished_, std::nullopt);
}

bool RunProfiler::is_wanted_locked() const {
  return std::ranges::any_of(profile_.stays, [this](const ProfiledStay& stay) {
    return stay.hole >= first_hole_ && stay.hole < first_hole_ + holes_;
  });
}

void RunProfiler::forget_run_locked() {
  profile_ = {};
  peaks_.end_all();
  time_.forget_all();
  stays_.clear();
  allocations_.clear();
}

bool RunProfiler::enter_run_locked(const SeenOp& op) {
  if (step_ == op.step) return !skips_;
  if (!nodes_.contains(std::string(op.node))) return false;
  const bool first = !step_;
  step_ = op.step;
  ++run_;
  if (!first && !skips_ && is_wanted_locked()) {
    for (const auto& [pointer, index] : stays_) profile_.stays[index].to = profile_.ops.size() - 1;
    finished_ = std::move(profile_);
    on_.store(false);
  }
  forget_run_locked();
  skips_ = first;
  return !skips_ && watches();
}

bool RunProfiler::begin_op(const SeenOp& op, TimeNs now) {
  if (!watches()) return false;
  const std::lock_guard lock(mutex_);
  if (!watches() || !enter_run_locked(op) || open_op().run == run_) return false;
  if (profile_.ops.empty()) began_ = now;
  open_op() = {.run = run_, .index = profile_.ops.size()};
  time_.computes(open_op().time, now);
  const Bytes live = peaks_.begin(open_op().index);
  profile_.ops.push_back({.node = std::string(op.node), .duration_ns = 0, .peak = live});
  return true;
}

void RunProfiler::end_op(std::span<const SeenMemory> /*outputs*/, TimeNs now) {
  const std::lock_guard lock(mutex_);
  OpenOp& op = open_op();
  if (std::exchange(op.run, 0) != run_) return;
  const std::optional<Bytes> peak = peaks_.end(op.index);
  if (!peak) return;
  time_.rests(op.time, now);
  profile_.ops[op.index].duration_ns = SharedTime::taken(op.time);
  profile_.ops[op.index].peak = *peak;
  profile_.duration_ns = now - began_;
}

void RunProfiler::begins_to_wait(TimeNs now) {
  if (!watches()) return;
  const std::lock_guard lock(mutex_);
  if (open_op().run == run_) time_.rests(open_op().time, now);
}

void RunProfiler::has_waited(TimeNs now) {
  if (!watches()) return;
  const std::lock_guard lock(mutex_);
  if (open_op().run == run_) time_.computes(open_op().time, now);
}

void RunProfiler::stay(ProfiledStay begun, SeenMemory memory, bool is_made) {
  if (!watches()) return;
  const std::lock_guard lock(mutex_);
  if (skips_ || profile_.ops.empty()) return;
  const auto allocation = find_allocation(allocations_, memory.pointer);
  const std::byte* const whole =
      allocation == allocations_.end() ? memory.pointer : allocation->first;
  const auto [known, end] = stays_.equal_range(whole);
  if (!is_made && known != end) return;
  const auto is_begun = [&](const auto& entry) {
    return profile_.stays[entry.second].hole == begun.hole;
  };
  if (std::any_of(known, end, is_begun)) return;
  stays_.emplace(whole, profile_.stays.size());
  begun.bytes = memory.bytes;
  begun.from = begun.to = profile_.ops.size() - 1;
  profile_.stays.push_back(begun);
}

void RunProfiler::allocated(const std::byte* pointer, Bytes bytes, Bytes live) {
  if (!watches()) return;
  const std::lock_guard lock(mutex_);
  peaks_.allocated(live);
  allocations_[pointer] = {bytes};
}

void RunProfiler::freed(const std::byte* pointer) noexcept {
  if (!watches()) return;
  const std::lock_guard lock(mutex_);
  if (const auto found = allocations_.find(pointer); found != allocations_.end()) {
    peaks_.freed(found->second.bytes);
    allocations_.erase(found);
  }
  const auto [first, last] = stays_.equal_range(pointer);
  for (auto stay = first; stay != last; ++stay) {
    profile_.stays[stay->second].to = profile_.ops.size() - 1;
  }
  stays_.erase(first, last);
}

}  // namespace spillway::tf
