// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/analysis/access_table.hpp"

#include <algorithm>

#include "spillway/base/error.hpp"

namespace spillway::planning {

AccessTable::AccessTable(const Trace& trace) {
  SPILLWAY_CHECK(trace.ops.size() < kNoRow && trace.storages.size() < kNoRow &&
                     trace.ops.reads.items.size() + trace.ops.writes.items.size() +
                             trace.ops.creates.items.size() <
                         kNoRow,
                 "the trace has more rows than planning counts");
  collect(trace);
  link();
  measure();
}

void AccessTable::collect(const Trace& trace) {
  const std::size_t ops = trace.ops.size();
  const std::size_t storages = trace.storages.size();
  bytes_.resize(storages);
  creator_.assign(storages, kNoRow);
  freed_by_.assign(storages, kNoRow);
  successor_.assign(storages, kNoRow);
  predecessor_.assign(storages, kNoRow);
  for (std::size_t s = 0; s < storages; ++s) {
    bytes_[s] = trace.storages.bytes[s].count;
    const StorageId next =
        trace.storages.persistent[s] != 0 ? StorageId{s} : trace.storages.continues[s];
    if (next == kNoStorage) continue;
    successor_[s] = static_cast<Row>(to_value(next));
    predecessor_[to_value(next)] = static_cast<Row>(s);
  }
  op_first_.reserve(ops + 1);
  op_first_.push_back(0);
  workspace_.resize(ops);
  std::vector<Row> row_of(storages, kNoRow);  // the touch of the op at hand
  for (std::size_t i = 0; i < ops; ++i) {
    const OpIndex op{i};
    const auto touched = [&](StorageId id) -> Touch& {
      Row& row = row_of[to_value(id)];
      if (row == kNoRow || row < op_first_.back()) {
        row = static_cast<Row>(touches_.size());
        touches_.push_back({.storage = static_cast<Row>(to_value(id))});
        touch_op_.push_back(static_cast<Row>(i));
      }
      return touches_[row];
    };
    for (const StorageId id : trace.ops.creates[op]) {
      Touch& touch = touched(id);
      touch.creates = touch.writes = true;
      creator_[to_value(id)] = static_cast<Row>(i);
    }
    for (const StorageId id : trace.ops.reads[op]) touched(id).reads = true;
    for (const StorageId id : trace.ops.writes[op]) touched(id).writes = true;
    freed_first_.push_back(static_cast<Row>(freed_.size()));
    for (const StorageId id : trace.ops.frees[op]) {
      freed_by_[to_value(id)] = static_cast<Row>(i);
      freed_.push_back(static_cast<Row>(to_value(id)));
    }
    workspace_[i] = trace.ops.workspace[i].count;
    op_first_.push_back(static_cast<Row>(touches_.size()));
  }
  freed_first_.push_back(static_cast<Row>(freed_.size()));
}

void AccessTable::link() {
  next_.assign(touches_.size(), kNoRow);
  previous_.assign(touches_.size(), kNoRow);
  first_.assign(bytes_.size(), kNoRow);
  last_.assign(bytes_.size(), kNoRow);
  for (Row row = 0; row < touches(); ++row) {
    const Row storage = touches_[row].storage;
    const Row before = last_[storage];
    previous_[row] = before;
    (before == kNoRow ? first_[storage] : next_[before]) = row;
    last_[storage] = row;
  }
}

void AccessTable::measure() {
  alive_ = workspace_;
  working_set_ = workspace_;
  std::vector<std::uint64_t> born(ops() + 1);
  std::vector<std::uint64_t> dies(ops() + 1);
  std::uint64_t now = 0;
  for (Row s = 0; s < storages(); ++s) {
    if (creator_[s] == kNoRow) {
      now += bytes_[s];
    } else {
      born[creator_[s]] += bytes_[s];
    }
    if (freed_by_[s] != kNoRow) dies[freed_by_[s] + 1] += bytes_[s];
  }
  for (Row op = 0; op < ops(); ++op) {
    now += born[op];
    now -= dies[op];
    alive_[op] += now;
    for (Row row = op_first_[op]; row < op_first_[op + 1]; ++row) {
      working_set_[op] += bytes_[touches_[row].storage];
    }
  }
  op_with_most_alive_ =
      static_cast<Row>(std::max_element(alive_.begin(), alive_.end()) - alive_.begin());
}

GapEnd end_of_gap(const AccessTable& table, Row touch) {
  const Row next = table.next_touch(touch);
  const Row storage = table.touch(touch).storage;
  if (next != kNoRow) return {storage, next, false};
  const Row heir = table.successor(storage);
  if (heir == kNoRow || table.first_touch(heir) == kNoRow) return {};
  return {heir, table.first_touch(heir), true};
}

}  // namespace spillway::planning
