// SPDX-License-Identifier: Apache-2.0
#include "record/step_rows.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <utility>

namespace spillway::torch {

namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x9e3779b97f4a7c15ULL + (hash >> 29U);
}

void replace(std::vector<std::uint32_t>& row, std::uint32_t from, std::uint32_t to) {
  const bool has_both = std::ranges::find(row, to) != row.end();
  if (has_both) {
    std::erase(row, from);
  } else {
    std::ranges::replace(row, from, to);
  }
}

}  // namespace

std::uint32_t Texts::number(std::string_view text) {
  const auto [entry, added] =
      numbers_.try_emplace(std::string(text), static_cast<std::uint32_t>(texts_.size()));
  if (added) texts_.emplace_back(text);
  return entry->second;
}

void StepRows::begin_step() {
  moved_.assign(storages_.size(), kNoRow);
  std::size_t kept = 0;
  for (std::size_t row = 0; row < storages_.size(); ++row) {
    if (storages_[row].freed || storages_[row].became) continue;
    moved_[row] = static_cast<std::uint32_t>(kept);
    storages_[row].born = kBeforeStep;
    storages_[kept++] = storages_[row];
  }
  storages_.resize(kept);
  ops_.clear();
}

std::uint32_t StepRows::add_storage(Bytes bytes) {
  storages_.push_back(Storage{.bytes = bytes});
  return static_cast<std::uint32_t>(storages_.size() - 1);
}

void StepRows::add_op(RecordedOp op) {
  std::uint64_t origin = mix(mix(mix(1, op.name), op.source), op.module);
  for (const std::uint32_t row : op.creates) {
    origin = mix(origin, storages_[row].bytes.count);
    storages_[row].born = ops_.size();
    storages_[row].origin = origin;
  }
  ops_.push_back(std::move(op));
}

void StepRows::free(std::uint32_t row) {
  // A storage that dies before the first op is freed by it: no earlier place exists.
  storages_[row].freed = ops_.empty() ? 0 : ops_.size() - 1;
}

void StepRows::describe(std::uint32_t row, StorageRole role, std::string_view name) {
  storages_[row].role = role;
  storages_[row].name = texts_.number(name);
}

void StepRows::absorb(std::uint32_t operand, std::uint32_t result, std::uint64_t signature) {
  RecordedOp& op = ops_.back();
  std::erase(op.creates, result);
  replace(op.reads, result, operand);
  replace(op.writes, result, operand);
  storages_[operand].freed.reset();
  storages_[result].became = operand;
  op.name = texts_.number(kAdditionInPlace);
  op.signature = signature;
  op.recomputable = false;
}

StorageRole StepRows::role_of(const Storage& storage) const {
  if (storage.role != StorageRole::kUnknown) return storage.role;
  return storage.born != kBeforeStep && storage.freed ? StorageRole::kActivation
                                                      : StorageRole::kUnknown;
}

// Pairs what is alive after the step with what was alive before it and then freed: those that the
// same op of the step before created, first to first.
std::vector<std::optional<std::uint32_t>> StepRows::successors() const {
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;
  const auto key = [](const Storage& storage) {
    // A name tells more than an origin: gradients of equal layers have equal origins.
    return storage.name != 0 ? Key{storage.bytes.count, 0, storage.name}
                             : Key{storage.bytes.count, storage.origin, 0};
  };
  std::map<Key, std::deque<std::uint32_t>> before;
  for (std::uint32_t row = 0; row < storages_.size(); ++row) {
    const Storage& storage = storages_[row];
    if (storage.born == kBeforeStep && storage.freed) before[key(storage)].push_back(row);
  }
  std::vector<std::optional<std::uint32_t>> result(storages_.size());
  for (std::size_t row = 0; row < storages_.size(); ++row) {
    const Storage& storage = storages_[row];
    if (storage.born == kBeforeStep || storage.freed || storage.became) continue;
    const auto match = before.find(key(storage));
    if (match == before.end() || match->second.empty()) continue;
    result[row] = match->second.front();
    match->second.pop_front();
  }
  return result;
}

Trace StepRows::trace() const {
  Trace trace;
  trace.timed = false;
  trace.workspace_known = false;
  const auto successor = successors();
  std::vector<StorageId> ids(storages_.size(), kNoStorage);
  std::uint64_t next = 0;
  for (std::size_t row = 0; row < storages_.size(); ++row) {
    if (!storages_[row].became) ids[row] = StorageId{next++};
  }
  std::vector<std::vector<StorageId>> frees(ops_.size());
  for (std::size_t row = 0; row < storages_.size(); ++row) {
    const Storage& storage = storages_[row];
    if (storage.became) continue;
    trace.add(TraceStorage{.bytes = storage.bytes,
                           .role = role_of(storage),
                           .persistent = storage.born == kBeforeStep && !storage.freed,
                           .name = texts_[storage.name],
                           .continues = successor[row] ? ids[*successor[row]] : kNoStorage});
    if (storage.freed && !ops_.empty()) frees[*storage.freed].push_back(ids[row]);
  }
  const auto named = [&](const std::vector<std::uint32_t>& rows) {
    std::vector<StorageId> result;
    result.reserve(rows.size());
    for (const std::uint32_t row : rows) {
      result.push_back(ids[storages_[row].became.value_or(row)]);
    }
    return result;
  };
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const RecordedOp& op = ops_[i];
    trace.add(TraceOp{.name = texts_[op.name],
                      .flop = op.flop,
                      .bytes_touched = Bytes{op.bytes},
                      .thread = op.thread,
                      .arithmetic = op.arithmetic,
                      .recomputable = op.recomputable,
                      .source = texts_[op.source],
                      .module = texts_[op.module],
                      .signature = op.signature,
                      .reads = named(op.reads),
                      .writes = named(op.writes),
                      .creates = named(op.creates),
                      .frees = std::move(frees[i])});
  }
  return trace;
}

}  // namespace spillway::torch
