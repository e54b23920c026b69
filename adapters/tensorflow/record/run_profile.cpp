// SPDX-License-Identifier: Apache-2.0
#include "run_profile.hpp"

#include <algorithm>
#include <utility>

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
  profile_ = {};
  step_.reset();
  skips_ = true;
  on_.store(true);
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
  profile_ = {};
  skips_ = first;
  peaks_.end_all();
  stays_.clear();
  bytes_.clear();
  return !skips_ && watches();
}

bool RunProfiler::begin_op(const SeenOp& op, TimeNs now) {
  if (!watches()) return false;
  const std::lock_guard lock(mutex_);
  if (!watches() || !enter_run_locked(op) || open_op().run == run_) return false;
  open_op() = {.run = run_, .index = profile_.ops.size(), .began = now};
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
  profile_.ops[op.index].duration_ns = now - op.began;
  profile_.ops[op.index].peak = *peak;
}

void RunProfiler::stay(std::uint64_t hole, SeenMemory memory, bool back) {
  if (!watches()) return;
  const std::lock_guard lock(mutex_);
  if (skips_ || profile_.ops.empty()) return;
  const std::size_t now = profile_.ops.size() - 1;
  if (const auto known = stays_.find(memory.pointer); known != stays_.end()) {
    if (back) return;  // it has not left
    // Made in the memory of its input, whose last user that op was.
    profile_.stays[known->second].to = now;
  }
  stays_[memory.pointer] = profile_.stays.size();
  profile_.stays.push_back(
      {.hole = hole, .back = back, .bytes = memory.bytes, .from = now, .to = now});
}

void RunProfiler::allocated(const std::byte* pointer, Bytes bytes, Bytes live) {
  if (!watches()) return;
  const std::lock_guard lock(mutex_);
  peaks_.allocated(live);
  bytes_[pointer] = bytes;
}

void RunProfiler::freed(const std::byte* pointer) noexcept {
  if (!watches()) return;
  const std::lock_guard lock(mutex_);
  if (const auto found = bytes_.find(pointer); found != bytes_.end()) {
    peaks_.freed(found->second);
    bytes_.erase(found);
  }
  const auto found = stays_.find(pointer);
  if (found == stays_.end()) return;
  profile_.stays[found->second].to = profile_.ops.size() - 1;
  stays_.erase(found);
}

}  // namespace spillway::tf
