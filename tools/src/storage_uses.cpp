// SPDX-License-Identifier: Apache-2.0
#include "storage_uses.hpp"

#include <algorithm>

namespace spillway::tools {
namespace {

template <typename Visitor>
void each_use(const Trace& trace, std::size_t op, Visitor&& visit) {
  for (const StorageLists* lists : {&trace.ops.creates, &trace.ops.reads, &trace.ops.writes}) {
    for (const StorageId storage : (*lists)[OpIndex{op}]) visit(to_value(storage));
  }
}

}  // namespace

StorageUses::StorageUses(const Trace& trace)
    : ops_(trace.ops.size()),
      persistent_(trace.storages.persistent),
      next_(trace.storages.continues),
      previous_(trace.storages.size(), kNoStorage),
      maker_(trace.storages.size()),
      freed_(trace.storages.size(), ops_) {
  const std::size_t storages = trace.storages.size();
  for (std::size_t row = 0; row < storages; ++row) {
    if (next_[row] != kNoStorage) previous_[to_value(next_[row])] = StorageId{row};
  }
  // An op may both read and write a storage: one use.
  std::vector<std::vector<std::size_t>> uses(storages);
  Bytes alive;
  for (const Bytes bytes : trace.storages.bytes) alive += bytes;
  for (const StorageId id : trace.ops.creates.items) alive -= trace.storages.bytes[to_value(id)];
  begin_.push_back(0);
  for (std::size_t op = 0; op < ops_; ++op) {
    each_use(trace, op, [&](std::size_t row) {
      if (uses[row].empty() || uses[row].back() != op) uses[row].push_back(op);
    });
    for (const StorageId id : trace.ops.creates[OpIndex{op}]) {
      maker_[to_value(id)] = op;
      alive += trace.storages.bytes[to_value(id)];
    }
    alive_.push_back(alive + trace.ops.alloc_peak[op]);
    for (const StorageId id : trace.ops.frees[OpIndex{op}]) {
      freed_[to_value(id)] = op;
      alive -= trace.storages.bytes[to_value(id)];
    }
    begin_.push_back(begin_.back() + trace.ops.duration_ns[op]);
  }
  offsets_.push_back(0);
  for (const std::vector<std::size_t>& row : uses) {
    uses_.insert(uses_.end(), row.begin(), row.end());
    offsets_.push_back(uses_.size());
  }
}

std::span<const std::size_t> StorageUses::of(StorageId storage) const {
  const std::size_t row = to_value(storage);
  return std::span(uses_).subspan(offsets_[row], offsets_[row + 1] - offsets_[row]);
}

/// From the beginning of the step.
TimeNs StorageUses::before_first(StorageId storage) const {
  const auto uses = of(storage);
  const std::size_t row = to_value(storage);
  return begin_[uses.empty() ? freed_[row] : uses.front()];
}

/// To the end of the step, or to where it is freed.
TimeNs StorageUses::behind_last(StorageId storage) const {
  const auto uses = of(storage);
  const std::size_t last = uses.empty() ? 0 : uses.back() + 1;
  return between(last, std::max(last, freed_[to_value(storage)]));
}

IdleStretch StorageUses::around(StorageId storage, OpIndex at) const {
  const auto uses = of(storage);
  const std::size_t row = to_value(storage);
  const auto next = std::lower_bound(uses.begin(), uses.end(), to_value(at));
  IdleStretch found;
  const bool first = next == uses.begin();
  const bool last = next == uses.end();
  found.from = first ? maker_[row] : *(next - 1) + 1;
  found.to = last ? std::max(found.from, freed_[row]) : *next;
  found.ns = between(found.from, found.to);
  if (persistent_[row] != 0 && (first || last)) {
    found.over_end = true;
    found.from = uses.empty() ? 0 : uses.back() + 1;
    found.to = uses.empty() ? ops_ : uses.front();
    found.ns = uses.empty() ? begin_.back() : behind_last(storage) + before_first(storage);
    return found;
  }
  if (last && next_[row] != kNoStorage) {
    found.over_end = true;
    found.ns += before_first(next_[row]);
  }
  if (first && previous_[row] != kNoStorage) {
    found.over_end = true;
    found.ns += behind_last(previous_[row]);
  }
  return found;
}

std::optional<IdleStretch> StorageUses::longest(StorageId storage) const {
  std::optional<IdleStretch> longest;
  const auto consider = [&](const IdleStretch& stretch) {
    if (stretch.ns > 0 && (!longest || stretch.ns > longest->ns)) longest = stretch;
  };
  const auto uses = of(storage);
  if (uses.empty()) return longest;
  for (std::size_t i = 0; i + 1 < uses.size(); ++i) {
    const std::size_t from = uses[i] + 1;
    consider({from, uses[i + 1], false, between(from, uses[i + 1])});
  }
  if (persistent_[to_value(storage)] != 0) {
    consider(around(storage, OpIndex{0}));
  } else if (maker_[to_value(storage)] != uses.front()) {
    consider({0, uses.front(), false, begin_[uses.front()]});
  }
  return longest;
}

Bytes StorageUses::most_alive(const IdleStretch& stretch) const {
  Bytes most;
  const auto look = [&](std::size_t from, std::size_t to) {
    for (std::size_t op = from; op < to; ++op) most = std::max(most, alive_[op]);
  };
  if (stretch.over_end && stretch.to <= stretch.from) {
    look(stretch.from, ops_);
    look(0, stretch.to);
  } else {
    look(stretch.from, stretch.to);
  }
  return most;
}

}  // namespace spillway::tools
