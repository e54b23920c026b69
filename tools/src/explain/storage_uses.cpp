// SPDX-License-Identifier: Apache-2.0
#include "explain/storage_uses.hpp"

#include <algorithm>

namespace spillway::tools {
namespace {

using planning::kNoRow;
using planning::Row;

Row row_of(StorageId storage) { return static_cast<Row>(to_value(storage)); }

}  // namespace

StorageUses::StorageUses(const Trace& trace) : table_(trace) {
  offsets_.push_back(0);
  for (Row storage = 0; storage < table_.storages(); ++storage) {
    for (Row touch = table_.first_touch(storage); touch != kNoRow;
         touch = table_.next_touch(touch)) {
      uses_.push_back(table_.op_of(touch));
    }
    offsets_.push_back(uses_.size());
  }
  begin_.push_back(0);
  for (const TimeNs duration : trace.ops.duration_ns) begin_.push_back(begin_.back() + duration);
}

std::optional<OpIndex> StorageUses::maker(StorageId storage) const {
  const Row op = table_.creator(row_of(storage));
  return op == kNoRow ? std::nullopt : std::optional(OpIndex{op});
}

std::size_t StorageUses::begins(StorageId storage) const {
  return to_value(maker(storage).value_or(OpIndex{0}));
}

std::size_t StorageUses::freed(StorageId storage) const {
  const Row op = table_.freed_by(row_of(storage));
  return op == kNoRow ? table_.ops() : op;
}

bool StorageUses::is_persistent(StorageId storage) const {
  return table_.successor(row_of(storage)) == row_of(storage);
}

std::span<const std::size_t> StorageUses::of(StorageId storage) const {
  const std::size_t row = to_value(storage);
  return std::span(uses_).subspan(offsets_[row], offsets_[row + 1] - offsets_[row]);
}

/// From the beginning of the step.
TimeNs StorageUses::before_first(StorageId storage) const {
  const auto uses = of(storage);
  return begin_[uses.empty() ? freed(storage) : uses.front()];
}

/// To the end of the step, or to where it is freed.
TimeNs StorageUses::behind_last(StorageId storage) const {
  const auto uses = of(storage);
  const std::size_t last = uses.empty() ? 0 : uses.back() + 1;
  return between(last, std::max(last, freed(storage)));
}

IdleStretch StorageUses::around(StorageId storage, OpIndex at) const {
  const auto uses = of(storage);
  const auto next = std::lower_bound(uses.begin(), uses.end(), to_value(at));
  IdleStretch found;
  const bool first = next == uses.begin();
  const bool last = next == uses.end();
  found.from = first ? begins(storage) : *(next - 1) + 1;
  found.to = last ? std::max(found.from, freed(storage)) : *next;
  found.ns = between(found.from, found.to);
  if (is_persistent(storage) && (first || last)) {
    found.over_end = true;
    found.from = uses.empty() ? 0 : uses.back() + 1;
    found.to = uses.empty() ? table_.ops() : uses.front();
    found.ns = uses.empty() ? begin_.back() : behind_last(storage) + before_first(storage);
    return found;
  }
  if (const Row next_name = table_.successor(row_of(storage)); last && next_name != kNoRow) {
    found.over_end = true;
    found.ns += before_first(StorageId{next_name});
  }
  if (const Row name_before = table_.predecessor(row_of(storage)); first && name_before != kNoRow) {
    found.over_end = true;
    found.ns += behind_last(StorageId{name_before});
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
  if (is_persistent(storage)) {
    consider(around(storage, OpIndex{0}));
  } else if (begins(storage) != uses.front()) {
    consider({0, uses.front(), false, begin_[uses.front()]});
  }
  return longest;
}

Bytes StorageUses::most_alive(const IdleStretch& stretch) const {
  Bytes most;
  const auto look = [&](std::size_t from, std::size_t to) {
    for (std::size_t op = from; op < to; ++op) {
      most = std::max(most, Bytes{table_.alive(static_cast<Row>(op))});
    }
  };
  if (stretch.over_end && stretch.to <= stretch.from) {
    look(stretch.from, table_.ops());
    look(0, stretch.to);
  } else {
    look(stretch.from, stretch.to);
  }
  return most;
}

}  // namespace spillway::tools
