// SPDX-License-Identifier: Apache-2.0
#include "spillway/trace/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace spillway {
namespace {

constexpr std::array<std::string_view, kStorageRoleCount> kRoleNames{
    "unknown", "parameter", "gradient", "optimizer_state", "activation", "input", "workspace"};
static_assert(static_cast<std::size_t>(StorageRole::kWorkspace) + 1 == kStorageRoleCount);

// Sums of a valid trace stay in 64 bits, with room for what planners add to them.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

constexpr std::size_t kListCount = 4;
constexpr std::array<std::string_view, kListCount> kVerbs{"creates", "reads", "writes", "frees"};

std::array<const StorageLists*, kListCount> lists_of(const TraceOps& ops) {
  return {&ops.creates, &ops.reads, &ops.writes, &ops.frees};
}

using Problem = std::optional<std::string>;

Problem check_list(const StorageLists& list, std::string_view verb, std::size_t ops) {
  if (list.offsets.size() != ops + 1) {
    return fmt::format("the column of {} has {} offsets for {} ops", verb, list.offsets.size(),
                       ops);
  }
  if (list.offsets.front() != 0 || list.offsets.back() != list.items.size() ||
      !std::is_sorted(list.offsets.begin(), list.offsets.end())) {
    return fmt::format("the offsets of {} do not cut its {} items into rows", verb,
                       list.items.size());
  }
  return std::nullopt;
}

Problem check_shape(const Trace& trace) {
  const TraceStorages& storages = trace.storages;
  const std::size_t rows = storages.size();
  if (storages.role.size() != rows || storages.persistent.size() != rows ||
      storages.name.size() != rows) {
    return "the columns of storages differ in length";
  }
  const TraceOps& ops = trace.ops;
  const std::size_t count = ops.size();
  if (ops.duration_ns.size() != count || ops.flop.size() != count ||
      ops.bytes_touched.size() != count || ops.thread.size() != count ||
      ops.source.size() != count || ops.alloc_peak.size() != count) {
    return "the columns of ops differ in length";
  }
  const auto lists = lists_of(ops);
  for (std::size_t i = 0; i < kListCount; ++i) {
    if (Problem problem = check_list(*lists[i], kVerbs[i], count)) return problem;
  }
  return std::nullopt;
}

Problem check_storages(const TraceStorages& storages) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (static_cast<std::size_t>(storages.role[i]) >= kStorageRoleCount) {
      return fmt::format("storage {}: role {} does not exist", i,
                         static_cast<unsigned>(storages.role[i]));
    }
    if (storages.persistent[i] > 1) {
      return fmt::format("storage {}: persistent is {}, neither 0 nor 1", i,
                         storages.persistent[i]);
    }
    if (__builtin_add_overflow(sum, storages.bytes[i].count, &sum) || sum > kMostBytes) {
      return fmt::format("storage {}: with its {} bytes, the storages exceed {} bytes", i,
                         storages.bytes[i].count, kMostBytes);
    }
  }
  return std::nullopt;
}

/// Follows every storage through its life, op by op.
class LifeChecker {
 public:
  explicit LifeChecker(const Trace& trace)
      : trace_(trace), states_(trace.storages.size()), seen_(trace.storages.size(), kNever) {}

  Problem check() {
    // A storage that some op creates is not alive before that op.
    for (const StorageId id : trace_.ops.creates.items) {
      if (is_known(id)) states_[to_value(id)] = State::kUnborn;
    }
    for (std::size_t op = 0; op < trace_.ops.size(); ++op) {
      if (Problem problem = check_op(op)) {
        return fmt::format("op {} ({}): {}", op, trace_.ops.name[op], *problem);
      }
    }
    return check_persistence();
  }

 private:
  enum class State : std::uint8_t { kAliveBefore, kUnborn, kBorn, kFreed };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  [[nodiscard]] bool is_known(StorageId id) const { return to_value(id) < states_.size(); }

  Problem check_op(std::size_t op) {
    if (trace_.ops.duration_ns[op] < 0) {
      return fmt::format("lasts {} ns", trace_.ops.duration_ns[op]);
    }
    if (trace_.ops.alloc_peak[op].count > kMostBytes) {
      return fmt::format("holds {} bytes of scratch memory, more than {}",
                         trace_.ops.alloc_peak[op].count, kMostBytes);
    }
    const auto lists = lists_of(trace_.ops);
    for (std::size_t list = 0; list < kListCount; ++list) {
      for (const StorageId id : (*lists[list])[OpIndex{op}]) {
        if (Problem problem = check_event(id, list, op * kListCount + list)) {
          return fmt::format("{} storage {}, {}", kVerbs[list], to_value(id), *problem);
        }
      }
    }
    return std::nullopt;
  }

  /// `row` numbers the row of this op and list, to find a storage that stands in it twice.
  Problem check_event(StorageId id, std::size_t list, std::uint64_t row) {
    if (!is_known(id)) return fmt::format("but there are {} storages", states_.size());
    State& state = states_[to_value(id)];
    if (std::exchange(seen_[to_value(id)], row) == row) return "and does so twice";
    const bool creates = list == 0;
    if (creates && state != State::kUnborn) return "which was created before";
    if (!creates && state == State::kUnborn) return "which is created later or not at all";
    if (state == State::kFreed) return "which was freed before";
    if (creates) state = State::kBorn;
    if (list == kListCount - 1) {
      if (trace_.storages.persistent[to_value(id)] != 0) return "which is persistent";
      state = State::kFreed;
    }
    return std::nullopt;
  }

  [[nodiscard]] Problem check_persistence() const {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const bool persistent = trace_.storages.persistent[i] != 0;
      if (persistent && states_[i] != State::kAliveBefore) {
        return fmt::format("storage {}: is persistent, but is created within the step", i);
      }
      if (!persistent && states_[i] == State::kAliveBefore) {
        return fmt::format("storage {}: is neither persistent nor created or freed by any op", i);
      }
    }
    return std::nullopt;
  }

  const Trace& trace_;
  std::vector<State> states_;
  std::vector<std::uint64_t> seen_;
};

}  // namespace

std::string_view to_string(StorageRole role) {
  return kRoleNames.at(static_cast<std::size_t>(role));
}

std::optional<StorageRole> parse_storage_role(std::string_view text) {
  const auto found = std::find(kRoleNames.begin(), kRoleNames.end(), text);
  if (found == kRoleNames.end()) return std::nullopt;
  return static_cast<StorageRole>(found - kRoleNames.begin());
}

void StorageLists::append(std::span<const StorageId> row) {
  items.insert(items.end(), row.begin(), row.end());
  offsets.push_back(items.size());
}

StorageId Trace::add(TraceStorage storage) {
  storages.bytes.push_back(storage.bytes);
  storages.role.push_back(storage.role);
  storages.persistent.push_back(storage.persistent ? 1 : 0);
  storages.name.push_back(std::move(storage.name));
  return StorageId{storages.size() - 1};
}

OpIndex Trace::add(TraceOp op) {
  ops.name.push_back(std::move(op.name));
  ops.duration_ns.push_back(op.duration_ns);
  ops.flop.push_back(op.flop);
  ops.bytes_touched.push_back(op.bytes_touched);
  ops.thread.push_back(op.thread);
  ops.source.push_back(std::move(op.source));
  ops.alloc_peak.push_back(op.alloc_peak);
  ops.reads.append(op.reads);
  ops.writes.append(op.writes);
  ops.creates.append(op.creates);
  ops.frees.append(op.frees);
  return OpIndex{ops.size() - 1};
}

std::optional<std::string> validate(const Trace& trace) {
  if (Problem problem = check_shape(trace)) return problem;
  if (Problem problem = check_storages(trace.storages)) return problem;
  return LifeChecker(trace).check();
}

Bytes peak_bytes(const Trace& trace) {
  const auto bytes_of = [&trace](StorageId id) { return trace.storages.bytes[to_value(id)]; };
  Bytes alive;
  for (const Bytes bytes : trace.storages.bytes) alive += bytes;
  for (const StorageId id : trace.ops.creates.items) alive -= bytes_of(id);
  Bytes peak = alive;
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    for (const StorageId id : trace.ops.creates[OpIndex{op}]) alive += bytes_of(id);
    peak = std::max(peak, alive + trace.ops.alloc_peak[op]);
    for (const StorageId id : trace.ops.frees[OpIndex{op}]) alive -= bytes_of(id);
  }
  return peak;
}

}  // namespace spillway
