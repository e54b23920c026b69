// SPDX-License-Identifier: Apache-2.0
// The columns of a trace, each with the field of a row that it holds, for code that treats all
// columns alike: appends a row, compares lengths, puts ops into another order. A new column is
// added here, to the structures of trace.hpp and to the text format.
#pragma once

#include <array>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "spillway/trace/trace.hpp"

namespace spillway {

inline constexpr std::tuple kStorageColumns{
    std::pair{&TraceStorages::bytes, &TraceStorage::bytes},
    std::pair{&TraceStorages::role, &TraceStorage::role},
    std::pair{&TraceStorages::persistent, &TraceStorage::persistent},
    std::pair{&TraceStorages::name, &TraceStorage::name},
    std::pair{&TraceStorages::continues, &TraceStorage::continues}};

/// Those with one value for each op.
inline constexpr std::tuple kOpColumns{std::pair{&TraceOps::name, &TraceOp::name},
                                       std::pair{&TraceOps::duration_ns, &TraceOp::duration_ns},
                                       std::pair{&TraceOps::flop, &TraceOp::flop},
                                       std::pair{&TraceOps::bytes_touched, &TraceOp::bytes_touched},
                                       std::pair{&TraceOps::thread, &TraceOp::thread},
                                       std::pair{&TraceOps::stream, &TraceOp::stream},
                                       std::pair{&TraceOps::arithmetic, &TraceOp::arithmetic},
                                       std::pair{&TraceOps::recomputable, &TraceOp::recomputable},
                                       std::pair{&TraceOps::source, &TraceOp::source},
                                       std::pair{&TraceOps::module, &TraceOp::module},
                                       std::pair{&TraceOps::workspace, &TraceOp::workspace},
                                       std::pair{&TraceOps::signature, &TraceOp::signature}};

/// A list of storages for each op.
struct OpListColumn {
  std::string_view verb;
  StorageLists TraceOps::*column;
  std::vector<StorageId> TraceOp::*field;
};

/// In the order in which the lists of one op take effect.
inline constexpr std::array<OpListColumn, 5> kOpListColumns{
    {{"creates", &TraceOps::creates, &TraceOp::creates},
     {"reads", &TraceOps::reads, &TraceOp::reads},
     {"writes", &TraceOps::writes, &TraceOp::writes},
     {"views", &TraceOps::views, &TraceOp::views},
     {"frees", &TraceOps::frees, &TraceOp::frees}}};

/// Calls `visit(column, field)` with each pair of members of such a tuple.
template <typename Columns, typename Visit>
constexpr void each_column(const Columns& columns, const Visit& visit) {
  std::apply([&](const auto&... pair) { (visit(pair.first, pair.second), ...); }, columns);
}

}  // namespace spillway
