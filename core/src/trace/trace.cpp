// SPDX-License-Identifier: Apache-2.0
#include "spillway/trace/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "spillway/trace/trace_columns.hpp"

namespace spillway {
namespace {

constexpr std::array<std::string_view, kStorageRoleCount> kRoleNames{
    "unknown", "parameter", "gradient", "optimizer_state", "activation", "input", "workspace"};
static_assert(static_cast<std::size_t>(StorageRole::kWorkspace) + 1 == kStorageRoleCount);

// Sums of a valid trace stay in 64 bits, with room for what planners add to them.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

constexpr std::size_t kListCount = kOpListColumns.size();

using Problem = std::optional<std::string>;

template <typename Lists>
Problem check_list(const Lists& list, std::string_view verb, std::size_t ops) {
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

/// Whether each column has so many rows.
template <typename Rows, typename Columns>
bool have_length(const Rows& rows, const Columns& columns, std::size_t length) {
  bool have = true;
  each_column(columns,
              [&](auto column, auto /*field*/) { have = have && (rows.*column).size() == length; });
  return have;
}

Problem check_shape(const Trace& trace) {
  if (!have_length(trace.storages, kStorageColumns, trace.storages.size())) {
    return "the columns of storages differ in length";
  }
  const TraceOps& ops = trace.ops;
  const std::size_t count = ops.size();
  if (!have_length(ops, kOpColumns, count)) return "the columns of ops differ in length";
  for (const OpListColumn& list : kOpListColumns) {
    if (Problem problem = check_list(ops.*list.column, list.verb, count)) return problem;
  }
  return check_list(ops.alternatives, "alternatives", count);
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
    if (Problem problem = check_persistence()) return problem;
    return check_continuations();
  }

 private:
  enum class State : std::uint8_t { kAliveBefore, kUnborn, kBorn, kFreed };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  [[nodiscard]] bool is_known(StorageId id) const { return to_value(id) < states_.size(); }

  Problem check_op(std::size_t op) {
    if (Problem problem = check_cost(trace_.ops.duration_ns[op], trace_.ops.workspace[op])) {
      return problem;
    }
    for (const OpAlternative& alternative : trace_.ops.alternatives[OpIndex{op}]) {
      if (Problem problem = check_cost(alternative.duration_ns, alternative.workspace)) {
        return "in an alternative " + *problem;
      }
    }
    if (static_cast<std::size_t>(trace_.ops.arithmetic[op]) >= kArithmeticCount) {
      return fmt::format("arithmetic {} does not exist",
                         static_cast<unsigned>(trace_.ops.arithmetic[op]));
    }
    if (trace_.ops.recomputable[op] > 1) {
      return fmt::format("recomputable is {}, neither 0 nor 1", trace_.ops.recomputable[op]);
    }
    for (std::size_t list = 0; list < kListCount; ++list) {
      for (const StorageId id : (trace_.ops.*kOpListColumns[list].column)[OpIndex{op}]) {
        if (Problem problem = check_event(id, list, op * kListCount + list)) {
          return fmt::format("{} storage {}, {}", kOpListColumns[list].verb, to_value(id),
                             *problem);
        }
      }
    }
    if (Problem problem = check_views(op)) return problem;
    return trace_.ops.recomputable[op] == 0 ? std::nullopt : check_purity(op);
  }

  [[nodiscard]] Problem check_cost(TimeNs duration, Bytes workspace) const {
    if (duration < 0) return fmt::format("lasts {} ns", duration);
    if (duration > 0 && !trace_.timed) {
      return fmt::format("lasts {} ns, but the trace is said to have no durations", duration);
    }
    if (workspace.count > kMostBytes) {
      return fmt::format("holds {} bytes of workspace, more than {}", workspace.count, kMostBytes);
    }
    return std::nullopt;
  }

  [[nodiscard]] Problem check_views(std::size_t op) const {
    const auto reads = trace_.ops.reads[OpIndex{op}];
    for (const StorageId id : trace_.ops.views[OpIndex{op}]) {
      if (std::find(reads.begin(), reads.end(), id) != reads.end()) continue;
      return fmt::format("views storage {}, which it does not read", to_value(id));
    }
    return std::nullopt;
  }

  [[nodiscard]] Problem check_purity(std::size_t op) const {
    const auto creates = trace_.ops.creates[OpIndex{op}];
    for (const StorageId id : trace_.ops.writes[OpIndex{op}]) {
      if (std::find(creates.begin(), creates.end(), id) != creates.end()) continue;
      return fmt::format("is recomputable, but writes storage {}, which it does not create",
                         to_value(id));
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

  /// Each storage that goes on is one alive at the end, and becomes another alive at the beginning.
  [[nodiscard]] Problem check_continuations() const {
    std::vector<bool> born(states_.size());
    for (const StorageId id : trace_.ops.creates.items) born[to_value(id)] = true;
    std::vector<bool> taken(states_.size());
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const StorageId next = trace_.storages.continues[i];
      if (next == kNoStorage) continue;
      const auto problem = [&](std::string_view what) {
        return fmt::format("storage {}: continues as storage {}, {}", i, to_value(next), what);
      };
      if (!is_known(next)) return problem(fmt::format("but there are {}", states_.size()));
      if (states_[i] != State::kBorn) return problem("but is not alive after the step alone");
      if (states_[to_value(next)] != State::kFreed || born[to_value(next)]) {
        return problem("which is not alive before the step alone");
      }
      if (trace_.storages.bytes[i] != trace_.storages.bytes[to_value(next)]) {
        return problem("which has another size");
      }
      if (taken[to_value(next)]) return problem("as does another storage");
      taken[to_value(next)] = true;
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

void AlternativeLists::append(std::span<const OpAlternative> row) {
  items.insert(items.end(), row.begin(), row.end());
  offsets.push_back(items.size());
}

void StorageLists::append(std::span<const StorageId> row) {
  items.insert(items.end(), row.begin(), row.end());
  offsets.push_back(items.size());
}

StorageId Trace::add(const TraceStorage& storage) {
  each_column(kStorageColumns,
              [&](auto column, auto field) { (storages.*column).push_back(storage.*field); });
  return StorageId{storages.size() - 1};
}

OpIndex Trace::add(const TraceOp& op) {
  each_column(kOpColumns, [&](auto column, auto field) { (ops.*column).push_back(op.*field); });
  for (const OpListColumn& list : kOpListColumns) (ops.*list.column).append(op.*list.field);
  ops.alternatives.append(op.alternatives);
  return OpIndex{ops.size() - 1};
}

std::optional<std::string> validate(const Trace& trace) {
  if (Problem problem = check_shape(trace)) return problem;
  if (Problem problem = check_storages(trace.storages)) return problem;
  return LifeChecker(trace).check();
}

std::uint64_t structure_hash(const Trace& trace) {
  // FNV-1a over whole words (Fowler, Noll, Vo), with a shift so that high bits reach low ones.
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29;
  };
  const auto mix_ids = [&mix](std::span<const StorageId> ids) {
    mix(ids.size());
    for (const StorageId id : ids) mix(to_value(id));
  };
  mix(trace.storages.size());
  for (const Bytes bytes : trace.storages.bytes) mix(bytes.count);
  mix_ids(trace.storages.continues);
  mix(trace.ops.size());
  for (const OpListColumn& list : kOpListColumns) {
    const StorageLists& lists = trace.ops.*list.column;
    mix_ids(lists.items);
    for (const std::uint64_t offset : lists.offsets) mix(offset);
  }
  return hash;
}

std::vector<std::uint64_t> known_signatures(const Trace& trace) {
  const std::vector<std::uint64_t>& all = trace.ops.signature;
  const bool any = std::ranges::any_of(all, [](std::uint64_t signature) { return signature != 0; });
  return any ? all : std::vector<std::uint64_t>{};
}

Bytes peak_bytes(const Trace& trace) {
  const auto bytes_of = [&trace](StorageId id) { return trace.storages.bytes[to_value(id)]; };
  Bytes alive;
  for (const Bytes bytes : trace.storages.bytes) alive += bytes;
  for (const StorageId id : trace.ops.creates.items) alive -= bytes_of(id);
  Bytes peak = alive;
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    for (const StorageId id : trace.ops.creates[OpIndex{op}]) alive += bytes_of(id);
    peak = std::max(peak, alive + trace.ops.workspace[op]);
    for (const StorageId id : trace.ops.frees[OpIndex{op}]) alive -= bytes_of(id);
  }
  return peak;
}

}  // namespace spillway
