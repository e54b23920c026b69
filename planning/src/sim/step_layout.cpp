// SPDX-License-Identifier: Apache-2.0
#include "step_layout.hpp"

namespace spillway::planning::sim {

StepLayout::StepLayout(const Trace& trace) {
  lay_out_needs(trace);
  lay_out_ends(trace);
}

void StepLayout::lay_out_needs(const Trace& trace) {
  constexpr std::size_t kCreated = ~std::size_t{0};
  // Where in `needs_` a storage stands for the current op; entries of earlier ops lie before it.
  std::vector<std::size_t> at(trace.storages.size(), 0);
  const TraceOps& ops = trace.ops;
  needs_.reserve(ops.reads.items.size() + ops.writes.items.size());
  for (std::size_t op = 0; op < ops.size(); ++op) {
    const std::size_t first = needs_.size();
    Bytes created{};
    for (const StorageId id : ops.creates[OpIndex{op}]) {
      created += trace.storages.bytes[to_value(id)];
      at[to_value(id)] = kCreated;
    }
    for (const StorageId id : ops.reads[OpIndex{op}]) {
      if (at[to_value(id)] == kCreated) continue;
      at[to_value(id)] = needs_.size();
      needs_.push_back({id, false});
    }
    for (const StorageId id : ops.writes[OpIndex{op}]) {
      const std::size_t known = at[to_value(id)];
      if (known == kCreated) continue;
      if (known >= first && known < needs_.size() && needs_[known].storage == id) {
        needs_[known].writes = true;
      } else {
        needs_.push_back({id, true});
      }
    }
    for (const StorageId id : ops.creates[OpIndex{op}]) at[to_value(id)] = 0;
    offsets_.push_back(needs_.size());
    created_.push_back(created);
  }
}

void StepLayout::lay_out_ends(const Trace& trace) {
  const std::size_t count = trace.storages.size();
  std::vector<bool> born(count);
  std::vector<bool> freed(count);
  std::vector<StorageId> before(count, kNoStorage);
  for (const StorageId id : trace.ops.creates.items) born[to_value(id)] = true;
  for (const StorageId id : trace.ops.frees.items) freed[to_value(id)] = true;
  for (std::size_t i = 0; i < count; ++i) {
    const StorageId next = trace.storages.continues[i];
    if (next != kNoStorage) before[to_value(next)] = StorageId{i};
    if (born[i] && !freed[i] && next == kNoStorage) endings_.push_back(StorageId{i});
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (born[i]) continue;
    const bool persistent = !freed[i];
    beginnings_.push_back({StorageId{i}, persistent ? StorageId{i} : before[i]});
  }
}

}  // namespace spillway::planning::sim
