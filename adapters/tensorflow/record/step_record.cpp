// SPDX-License-Identifier: Apache-2.0
#include "step_record.hpp"

#include <algorithm>
#include <utility>

#include "find_allocation.hpp"
#include "finished_step.hpp"
#include "spillway/base/name_hash.hpp"

namespace spillway::tf {
namespace {

constexpr double kAsHighAs = 0.98;

bool as_high_as(Bytes peak, Bytes highest) {
  return static_cast<double>(peak.count) >= kAsHighAs * static_cast<double>(highest.count);
}

}  // namespace

StepRecord::StepRecord(std::function<bool(const std::byte*)> is_ours)
    : is_ours_(std::move(is_ours)) {}

StepRecord::OpenOp& StepRecord::open_op() {
  thread_local OpenOp op;
  return op;
}

void StepRecord::watch(std::span<const std::string> nodes) {
  const std::lock_guard lock(mutex_);
  nodes_.insert(nodes.begin(), nodes.end());
  watching_.store(true);
}

bool StepRecord::is_open_locked() const { return step_ && open_op().run == run_; }

bool StepRecord::begin_op(const SeenOp& op, TimeNs now) {
  if (!watches()) return false;
  const std::lock_guard lock(mutex_);
  if (is_open_locked()) return false;  // within another
  if (step_ != op.step) {
    if (!nodes_.contains(std::string(op.node))) return false;
    end_run_locked();
    step_ = op.step;
    ++run_;
  }
  open_op() = {.run = run_,
               .index = peaks_.size(),
               .name = std::string(op.node),
               .touched = {},
               .pure = op.pure};
  if (peaks_.size() == runtime::TraceRecorder::kMostOps) {
    open_op().run = 0;
    return false;
  }
  peaks_.push_back(open_peaks_.begin(open_op().index));
  recorder_.begin_op(std::string(op.type).c_str(), hash_of_name(op.node), now);
  return true;
}

std::optional<StorageId> StepRecord::find_locked(SeenMemory memory) {
  if (memory.pointer == nullptr || memory.bytes.count == 0) return std::nullopt;
  const auto found = find_allocation(known_, memory.pointer);
  if (found != known_.end()) return found->second.id;
  if (!is_ours_(memory.pointer)) return std::nullopt;
  const StorageId id{next_id_++};
  known_[memory.pointer] = {.id = id, .bytes = memory.bytes};
  return id;
}

void StepRecord::use_locked(SeenMemory memory, bool writes) {
  if (!is_open_locked()) return;
  const auto id = find_locked(memory);
  if (!id) return;
  open_op().touched += memory.bytes;
  const std::string name(memory.name);
  recorder_.use(*id, memory.bytes, writes, name.empty() ? nullptr : name.c_str());
}

void StepRecord::reads(SeenMemory memory) {
  const std::lock_guard lock(mutex_);
  use_locked(memory, false);
}

void StepRecord::writes(SeenMemory memory) {
  const std::lock_guard lock(mutex_);
  use_locked(memory, true);
}

void StepRecord::end_op(std::span<const SeenMemory> outputs, TimeNs now) {
  const std::lock_guard lock(mutex_);
  OpenOp& op = open_op();
  if (!is_open_locked()) {
    op.run = 0;
    return;
  }
  for (const SeenMemory& memory : outputs) {
    const auto id = find_locked(memory);
    if (!id) continue;
    op.touched += memory.bytes;
    recorder_.made(*id, memory.bytes, std::string(name_in_function(op.name)).c_str(), false);
  }
  const std::string scope = scope_of(op.name);
  recorder_.note({.flop = {},
                  .bytes_touched = op.touched,
                  .arithmetic = Arithmetic::kUnknown,
                  .pure = op.pure,
                  .makes_inputs = false,
                  .module = scope,
                  .source = op.name,
                  .overwritten = {}});
  recorder_.end_op(now, {});
  peaks_[op.index] = open_peaks_.end(op.index).value();
  op.run = 0;
}

void StepRecord::is_input(SeenMemory memory) {
  const std::lock_guard lock(mutex_);
  if (const auto id = find_locked(memory)) recorder_.describe(*id, StorageRole::kInput, "input");
}

void StepRecord::allocated(const std::byte* pointer, Bytes bytes, Bytes live) {
  const std::lock_guard lock(mutex_);
  open_peaks_.allocated(live);
  const StorageId id{next_id_++};
  known_[pointer] = {.id = id, .bytes = bytes};
  recorder_.allocated(id, bytes);
}

void StepRecord::freed(const std::byte* pointer) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(pointer);
  if (found == known_.end()) return;
  open_peaks_.freed(found->second.bytes);
  recorder_.freed(found->second.id);
  known_.erase(found);
}

void StepRecord::end_run_locked() {
  step_.reset();
  if (peaks_.empty()) return;
  recorder_.boundary();
  const std::vector<Bytes> peaks = std::exchange(peaks_, {});
  open_peaks_.end_all();
  std::optional<Trace> trace = recorder_.trace();
  const Bytes peak = *std::ranges::max_element(peaks);
  if (!trace || (kept_ && !as_high_as(peak, kept_peak_))) return;
  measure_workspace(*trace, peaks);
  tell_roles(*trace);
  kept_ = std::move(trace);
  kept_peak_ = std::max(peak, kept_peak_);
}

std::optional<Trace> StepRecord::take() {
  const std::lock_guard lock(mutex_);
  end_run_locked();
  return kept_;
}

}  // namespace spillway::tf
