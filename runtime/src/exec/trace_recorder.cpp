// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/trace_recorder.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace spillway::runtime {

namespace {

struct OpenOp {
  std::uint64_t generation = 0;
  std::size_t index = 0;
  TimeNs began = 0;
  bool open = false;
};
thread_local OpenOp t_open;

std::uint32_t thread_number() {
  static std::atomic<std::uint32_t> next{0};
  thread_local const std::uint32_t number = next.fetch_add(1);
  return number;
}

void add_once(std::vector<StorageId>& row, StorageId id) {
  if (std::ranges::find(row, id) == row.end()) row.push_back(id);
}

}  // namespace

void TraceRecorder::boundary() {
  const std::lock_guard lock(mutex_);
  if (!current_.ops.empty()) complete_ = std::exchange(current_, {});
  ++generation_;
}

void TraceRecorder::begin_op(const char* name, TimeNs now) {
  const std::lock_guard lock(mutex_);
  t_open = {.generation = generation_, .index = current_.ops.size(), .began = now, .open = false};
  if (current_.ops.size() == kMostOps) return;
  t_open.open = true;
  current_.ops.push_back(TraceOp{.name = name, .thread = thread_number()});
}

StorageId TraceRecorder::row_of(StorageId id, Bytes bytes, bool born) {
  const auto [entry, added] = current_.lives.try_emplace(
      to_value(id), Life{static_cast<std::uint32_t>(current_.trace.storages.size()), born});
  if (added) {
    current_.trace.add(TraceStorage{.bytes = bytes});
    current_.born_at.emplace_back();
    current_.freed_at.emplace_back();
    current_.last_use.emplace_back();
  }
  return StorageId{entry->second.row};
}

void TraceRecorder::use(StorageId id, Bytes bytes, bool writes, const char* made_by) {
  const std::lock_guard lock(mutex_);
  if (!t_open.open || t_open.generation != generation_) return;
  const StorageId row = row_of(id, bytes, false);
  TraceOp& op = current_.ops[t_open.index];
  add_once(writes ? op.writes : op.reads, row);
  current_.last_use[to_value(row)] =
      std::max(current_.last_use[to_value(row)].value_or(0), t_open.index);
  TextColumn& names = current_.trace.storages.name;
  if (names[to_value(row)].empty() && made_by != nullptr) names.assign(to_value(row), made_by);
}

void TraceRecorder::allocated(StorageId id, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  if (current_.ops.empty() || current_.ops.size() == kMostOps) return;
  const bool inside = t_open.open && t_open.generation == generation_;
  const StorageId row = row_of(id, bytes, true);
  current_.born_at[to_value(row)] = inside ? t_open.index : current_.ops.size() - 1;
}

void TraceRecorder::freed(StorageId id) {
  const std::lock_guard lock(mutex_);
  const auto life = current_.lives.find(to_value(id));
  if (life == current_.lives.end()) return;
  // Seen when the freed list is drained, so with the latest op: never before the last use.
  current_.freed_at[life->second.row] = current_.ops.size() - 1;
  current_.lives.erase(life);
}

void TraceRecorder::end_op(TimeNs now, Bytes grown) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(t_open.open, false) || t_open.generation != generation_) return;
  TraceOp& op = current_.ops[t_open.index];
  op.duration_ns = now - t_open.began;
  op.alloc_peak = grown;  // less what it created: see build
}

Trace TraceRecorder::build(const Step& step) {
  Trace trace = step.trace;
  std::vector<TraceOp> ops = step.ops;
  std::vector<std::optional<StorageId>> renamed(trace.storages.size());
  Trace result;
  for (std::size_t row = 0; row < trace.storages.size(); ++row) {
    // Never used by an op: scratch, which the op's alloc_peak tells of.
    if (!step.last_use[row]) continue;
    const bool born = step.born_at[row].has_value();
    const bool dies = step.freed_at[row].has_value();
    TraceStorage storage{.bytes = trace.storages.bytes[row],
                         .role = born && dies ? StorageRole::kActivation : StorageRole::kUnknown,
                         .persistent = !born && !dies,
                         .name = std::string(trace.storages.name[row])};
    renamed[row] = result.add(storage);
    if (born) {
      TraceOp& maker = ops[*step.born_at[row]];
      maker.creates.push_back(*renamed[row]);
      maker.alloc_peak = saturating_sub(maker.alloc_peak, trace.storages.bytes[row]);
    }
    if (dies) {
      ops[std::max(*step.freed_at[row], *step.last_use[row])].frees.push_back(*renamed[row]);
    }
  }
  const auto rename = [&](std::vector<StorageId>& ids) {
    for (StorageId& id : ids) id = *renamed[to_value(id)];
  };
  for (TraceOp& op : ops) {
    rename(op.reads);
    rename(op.writes);
    result.add(op);
  }
  return result;
}

std::optional<Trace> TraceRecorder::trace() const {
  const std::lock_guard lock(mutex_);
  if (complete_) return build(*complete_);
  if (current_.ops.empty()) return {};
  return build(current_);
}

}  // namespace spillway::runtime
