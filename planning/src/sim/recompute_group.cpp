// SPDX-License-Identifier: Apache-2.0
#include "recompute_group.hpp"

namespace spillway::planning::sim {

void RecomputeGroup::begin(std::span<const PlanAction> actions) {
  for (const StorageId storage : touched_) last_reader_[to_value(storage)] = 0;
  touched_.clear();
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind != PlanActionKind::kRecompute) continue;
    if (made_.empty()) {
      made_.resize(trace_.storages.size());
      last_reader_.resize(trace_.storages.size());
    }
    for (const StorageId storage : trace_.ops.reads[actions[i].op]) {
      last_reader_[to_value(storage)] = static_cast<std::uint32_t>(i + 1);
      touched_.push_back(storage);
    }
  }
}

bool RecomputeGroup::keep(StorageId storage, std::size_t position) {
  if (made_[to_value(storage)] || last_reader_[to_value(storage)] <= position + 1) return false;
  made_[to_value(storage)] = true;
  return true;
}

Bytes RecomputeGroup::read_by(OpIndex op, std::size_t position) {
  Bytes freed{};
  for (const StorageId storage : trace_.ops.reads[op]) {
    if (!made_[to_value(storage)] || last_reader_[to_value(storage)] != position + 1) continue;
    made_[to_value(storage)] = false;
    freed += trace_.storages.bytes[to_value(storage)];
  }
  return freed;
}

}  // namespace spillway::planning::sim
