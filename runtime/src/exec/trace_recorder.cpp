// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/trace_recorder.hpp"

#include <algorithm>
#include <atomic>
#include <map>
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

bool has(const std::vector<StorageId>& row, StorageId id) {
  return std::ranges::find(row, id) != row.end();
}

void add_once(std::vector<StorageId>& row, StorageId id) {
  if (!has(row, id)) row.push_back(id);
}

}  // namespace

void TraceRecorder::boundary() {
  const std::lock_guard lock(mutex_);
  if (!current_.ops.empty()) {
    complete_ = std::exchange(current_, {});
    complete_generation_ = generation_;
  }
  ++generation_;
}

void TraceRecorder::begin_op(const char* name, std::uint64_t signature, TimeNs now) {
  const std::lock_guard lock(mutex_);
  t_open = {.generation = generation_, .index = current_.ops.size(), .began = now, .open = false};
  if (current_.ops.size() == kMostOps) return;
  t_open.open = true;
  current_.makes_inputs.push_back(false);
  current_.ops.push_back(TraceOp{.name = name, .thread = thread_number(), .signature = signature});
}

StorageId TraceRecorder::row_of(StorageId id, Bytes bytes, bool born) {
  const auto [entry, added] = current_.lives.try_emplace(
      to_value(id), Life{static_cast<std::uint32_t>(current_.trace.storages.size()), born});
  if (added) {
    const Identity& identity = identities_[to_value(id)];
    current_.trace.add(TraceStorage{.bytes = bytes, .role = identity.role, .name = identity.name});
    current_.born_at.emplace_back();
    current_.born_outside.push_back(false);
    current_.freed_at.emplace_back();
    current_.last_use.emplace_back();
    current_.origin.push_back(identity.origin);
  }
  return StorageId{entry->second.row};
}

// The open op, which uses `row` now.
TraceOp* TraceRecorder::touch(StorageId row, const char* made_by) {
  std::optional<std::size_t>& last_use = current_.last_use[to_value(row)];
  last_use = std::max(last_use.value_or(0), t_open.index);
  TextColumn& names = current_.trace.storages.name;
  if (names[to_value(row)].empty() && made_by != nullptr) names.assign(to_value(row), made_by);
  return &current_.ops[t_open.index];
}

void TraceRecorder::use(StorageId id, Bytes bytes, bool writes, const char* made_by) {
  const std::lock_guard lock(mutex_);
  if (!t_open.open || t_open.generation != generation_) return;
  const StorageId row = row_of(id, bytes, false);
  TraceOp* const op = touch(row, made_by);
  add_once(op->reads, row);
  if (writes) add_once(op->writes, row);
}

void TraceRecorder::made(StorageId id, Bytes bytes, const char* made_by, bool within) {
  const std::lock_guard lock(mutex_);
  if (!t_open.open || t_open.generation != generation_) return;
  const StorageId row = row_of(id, bytes, false);
  TraceOp* const op = touch(row, made_by);
  // A storage in the arguments that existed before is written only if they say so.
  const bool is_view = has(op->reads, row) && current_.born_at[to_value(row)] != t_open.index;
  if (!is_view) return add_once(op->writes, row);
  if (!within && !has(op->writes, row)) add_once(op->views, row);
}

void TraceRecorder::note(const OpNotes& notes) {
  const std::lock_guard lock(mutex_);
  if (!t_open.open || t_open.generation != generation_) return;
  TraceOp& op = current_.ops[t_open.index];
  op.flop = notes.flop;
  op.bytes_touched = notes.bytes_touched;
  op.arithmetic = notes.arithmetic;
  op.recomputable = notes.pure;  // if it writes nothing but what it creates: see build
  current_.makes_inputs[t_open.index] = notes.makes_inputs;
  op.module = notes.module;
  op.source = notes.source;
  for (const StorageId id : notes.overwritten) {
    const auto life = current_.lives.find(to_value(id));
    if (life != current_.lives.end()) std::erase(op.reads, StorageId{life->second.row});
  }
}

void TraceRecorder::describe(StorageId id, StorageRole role, std::string_view name) {
  const std::lock_guard lock(mutex_);
  Identity& identity = identities_[to_value(id)];
  identity.role = role;
  identity.name = name;
  const auto life = current_.lives.find(to_value(id));
  if (life == current_.lives.end()) return;
  current_.trace.storages.role[life->second.row] = role;
  current_.trace.storages.name.assign(life->second.row, name);
}

void TraceRecorder::allocated(StorageId id, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  if (current_.ops.empty() || current_.ops.size() == kMostOps) return;
  const bool inside = t_open.open && t_open.generation == generation_;
  // A storage that the program makes between two ops counts as created by the second, which it is
  // made for.
  const std::size_t maker = inside ? t_open.index : current_.ops.size();
  // Ops of one step begin in the order of those of another, so a maker is named by its place.
  identities_[to_value(id)] = {.origin = maker + 1};
  const StorageId row = row_of(id, bytes, true);
  current_.born_at[to_value(row)] = maker;
  current_.born_outside[to_value(row)] = !inside;
}

void TraceRecorder::freed(StorageId id) {
  const std::lock_guard lock(mutex_);
  identities_.erase(to_value(id));
  const auto life = current_.lives.find(to_value(id));
  if (life == current_.lives.end()) return;
  // Seen when the freed list is drained, so with the latest op: never before the last use.
  current_.freed_at[life->second.row] = current_.ops.size() - 1;
  current_.lives.erase(life);
}

std::optional<TraceRow> TraceRecorder::end_op(TimeNs now, Bytes grown) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(t_open.open, false) || t_open.generation != generation_) return {};
  TraceOp& op = current_.ops[t_open.index];
  op.duration_ns = now - t_open.began;
  op.workspace = grown;  // less what it created: see build
  return TraceRow{.step = generation_, .op = t_open.index};
}

void TraceRecorder::set_duration(const TraceRow& row, TimeNs duration) {
  const std::lock_guard lock(mutex_);
  if (row.step == generation_) {
    current_.ops[row.op].duration_ns = duration;
  } else if (complete_ && row.step == complete_generation_) {
    complete_->ops[row.op].duration_ns = duration;
  }
}

// As described, else as its life tells.
StorageRole TraceRecorder::role_of(const Step& step, std::size_t row) {
  const StorageRole described = step.trace.storages.role[row];
  if (described != StorageRole::kUnknown || !step.born_at[row]) return described;
  if (!step.born_outside[row] && step.makes_inputs[*step.born_at[row]]) {
    return StorageRole::kInput;
  }
  return step.freed_at[row] ? StorageRole::kActivation : StorageRole::kUnknown;
}

Trace TraceRecorder::build(const Step& step) {
  const TraceStorages& rows = step.trace.storages;
  std::vector<TraceOp> ops = step.ops;
  std::vector<std::optional<StorageId>> renamed(rows.size());
  Trace result;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    // Never used by an op: workspace, which the op's workspace tells of.
    if (!step.last_use[row]) continue;
    const bool born = step.born_at[row].has_value();
    const bool dies = step.freed_at[row].has_value();
    TraceStorage storage{.bytes = rows.bytes[row],
                         .role = role_of(step, row),
                         .persistent = !born && !dies,
                         .name = std::string(rows.name[row])};
    renamed[row] = result.add(storage);
    if (born) {
      TraceOp& maker = ops[std::min(*step.born_at[row], *step.last_use[row])];
      maker.creates.push_back(*renamed[row]);
      // The program filled it, which running the op again does not.
      if (step.born_outside[row]) {
        maker.recomputable = false;
      } else {
        maker.workspace = saturating_sub(maker.workspace, rows.bytes[row]);
      }
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
    rename(op.views);
    const auto created = [&](StorageId id) { return has(op.creates, id); };
    std::erase_if(op.reads, created);  // by ops within it
    op.recomputable =
        op.recomputable && !op.writes.empty() && std::ranges::all_of(op.writes, created);
    // Other shapes are worked out without a look at the bytes.
    if (!op.views.empty() && op.writes.empty()) op.bytes_touched = Bytes{0};
    result.add(op);
  }
  tell_what_continues(step, result, renamed);
  return result;
}

// A storage that was alive before and dies is, in the next step, the one that an equal op created
// in this one.
void TraceRecorder::tell_what_continues(const Step& step, Trace& trace,
                                        const std::vector<std::optional<StorageId>>& renamed) {
  using Kind = std::pair<std::uint64_t, std::uint64_t>;  // origin, bytes
  std::map<Kind, std::vector<StorageId>> leaving;
  const auto each = [&](bool born, auto&& function) {
    for (std::size_t row = 0; row < renamed.size(); ++row) {
      if (!renamed[row] || step.born_at[row].has_value() != born ||
          step.freed_at[row].has_value() == born) {
        continue;
      }
      const std::uint64_t origin = born ? *step.born_at[row] + 1 : step.origin[row];
      if (origin != 0) function(Kind{origin, step.trace.storages.bytes[row].count}, *renamed[row]);
    }
  };
  each(false, [&](const Kind& kind, StorageId id) { leaving[kind].push_back(id); });
  each(true, [&](const Kind& kind, StorageId id) {
    const auto former = leaving.find(kind);
    if (former == leaving.end() || former->second.empty()) return;
    trace.storages.continues[to_value(id)] = former->second.front();
    former->second.erase(former->second.begin());
  });
}

std::optional<Trace> TraceRecorder::trace() const {
  const std::lock_guard lock(mutex_);
  if (complete_) return build(*complete_);
  if (current_.ops.empty()) return {};
  return build(current_);
}

}  // namespace spillway::runtime
