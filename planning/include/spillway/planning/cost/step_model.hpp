// SPDX-License-Identifier: Apache-2.0
// The cost of a step on a machine: when ops run if nothing stalls, how long copies take, what it
// takes to make a storage again.
//
// All that planners and the lower bound share, computed once in linear time. Units: bytes, ns.
// Holds no reference to the trace. A value; any thread may read it.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "spillway/machine/machine.hpp"
#include "spillway/planning/analysis/access_table.hpp"
#include "spillway/planning/problem.hpp"

namespace spillway::planning {

/// A price that nothing pays.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct StepModel {
  explicit StepModel(const Problem& problem);

  AccessTable table;
  Budgets budgets;
  std::vector<TimeNs> duration;        ///< per op, as recorded
  std::vector<TimeNs> start;           ///< per op and one more: sum of the durations before it
  std::vector<TimeNs> least_duration;  ///< per op, the shortest of its alternatives
  std::vector<std::uint64_t> least_workspace;
  AlternativeLists alternatives;  ///< of the trace

  /// Per storage: the op to be run again that makes it, kNoRow where none does. Its creator, which
  /// is a pure function and the only op that writes it.
  std::vector<Row> recompute_op;
  /// Per storage: the last op before which that op may be run again with what it reads alive and
  /// unchanged; the number of ops where the end of the step will do. 0 where there is no such op.
  std::vector<Row> recompute_until;
  /// The same where what it reads may itself be made again, alive or not.
  std::vector<Row> chain_until;
  /// Per touch: the op of the next write to the same id in this step; kNoRow where there is none.
  std::vector<Row> next_write;
  /// Per op: the bytes that it creates.
  std::vector<std::uint64_t> created;

  [[nodiscard]] Row ops() const { return table.ops(); }
  /// The bytes that the op needs at once, and with those alive beside it; with its smallest
  /// workspace.
  [[nodiscard]] std::uint64_t least_working_set(Row op) const {
    return table.working_set(op) - table.workspace(op) + least_workspace[op];
  }
  [[nodiscard]] std::uint64_t least_alive(Row op) const {
    return table.alive(op) - table.workspace(op) + least_workspace[op];
  }
  [[nodiscard]] std::uint64_t budget(Tier tier) const { return budgets[tier].count; }
  /// Whether copies of the device pass through the host.
  [[nodiscard]] bool has_host() const {
    return links_[index_of(LinkKind::kDeviceToHost)] && links_[index_of(LinkKind::kHostToDevice)];
  }
  [[nodiscard]] bool has_disk() const {
    return links_[index_of(LinkKind::kHostToDisk)] && links_[index_of(LinkKind::kDiskToHost)];
  }
  /// Time on one link; kNever where the link does not exist.
  [[nodiscard]] double copy_ns(LinkKind link, std::uint64_t bytes) const;
  /// The same without latency and with what rounding to a nanosecond may save: never above what any
  /// copy takes, and proportional to its bytes or less.
  [[nodiscard]] double least_copy_ns(LinkKind link, std::uint64_t bytes) const;
  /// Share of the creator's time that one storage of its output stands for; kNever without one.
  [[nodiscard]] double recompute_share_ns(Row storage) const;

 private:
  void measure_alternatives(const Trace& trace);
  void find_recomputations(const Trace& trace);

  std::array<std::optional<Link>, kLinkCount> links_{};
};

}  // namespace spillway::planning
