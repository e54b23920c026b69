// SPDX-License-Identifier: Apache-2.0
#include "departures.hpp"

namespace spillway::runtime {

namespace {

// Bytes per nanosecond. A link to page-locked memory moves 25 to 55 (docs/gpu), a disk 0.5 to 3
// (docs/disk.md). What is recomputed goes neither out nor in.
constexpr double kHostRate = 50;
constexpr double kDiskRate = 2;
// What is read and made on the way has to lie beside what the op needs that asks.
constexpr std::uint64_t kBudgetParts = 4;

}  // namespace

bool Departures::may_drop() const {
  return rules_.recomputes() && moves(rules_.mode()) && paused_.load() == 0;
}

std::optional<Recipe> Departures::worthwhile(const StorageRecord& record) const {
  const bool fuzz = rules_.mode() == Mode::kFuzz;
  if (!may_drop() || record.held.load() != 0 || record.always_dirty.load()) return std::nullopt;
  if (record.has_copy.load() && !fuzz) return std::nullopt;
  std::optional<Recipe> recipe = recipe_of(record);
  if (!recipe) return std::nullopt;
  const Bytes room = recipe->read + recipe->made + record.bytes;
  if (room.count > budget_.limit().count / kBudgetParts) return std::nullopt;
  // In fuzz mode half of them, so that copies of the like are made, too.
  if (fuzz) return to_value(record.id) % 2 == 0 ? recipe : std::nullopt;
  return cheaper(recipe->cost, record.bytes) ? recipe : std::nullopt;
}

bool Departures::cheaper(TimeNs again, Bytes bytes) const {
  const double rate = mover_.goes_to_host(bytes) ? kHostRate : kDiskRate;
  return static_cast<double>(again) * rate < static_cast<double>(bytes.count);
}

TimeNs Departures::time_again(const StorageRecord& record) const {
  const TimeNs again = record.again.load(std::memory_order_relaxed);
  return again != 0 && may_drop() && cheaper(again, record.bytes) ? again : 0;
}

Bytes Departures::drop(StorageRecord& record) {
  const std::optional<Recipe> recipe = worthwhile(record);
  const Bytes pages = memory_.resident(*record.block);
  if (!recipe || !mover_.drop(record, recipe->reads)) return {};
  record.leaves.store(false, std::memory_order_relaxed);
  return pages;
}

Bytes Departures::begin(StorageRecord& record) {
  const Bytes dropped = drop(record);
  return dropped.count != 0 ? dropped : mover_.evict(record);
}

Bytes Departures::begin_ahead(StorageRecord& record, const void* path) {
  const Bytes dropped = drop(record);
  return dropped.count != 0 ? dropped : mover_.write_behind(record, path);
}

}  // namespace spillway::runtime
