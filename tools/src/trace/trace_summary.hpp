// SPDX-License-Identifier: Apache-2.0
// A recorded step in figures, and where two steps differ. Pure functions of valid traces;
// thread-safe. Bytes and nanoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tools {

/// All ops of one name. Refers to the trace's text.
struct OpSum {
  std::string_view name;
  TimeNs time_ns = 0;
  std::size_t count = 0;
};

struct RoleSum {
  std::size_t count = 0;
  Bytes bytes{};
};

/// The time of all ops, one after the other; 0 where the trace has no durations.
TimeNs compute_time(const Trace& trace);

/// Refers to the trace it was made from.
struct TraceSummary {
  TimeNs time_ns = 0;  ///< by compute_time
  Bytes peak{};        ///< of the run; where nothing ran, of the step
  Bytes floor{};       ///< likewise; of the step, the largest working set
  Bytes step_peak{};   ///< of this step, without rounding to pages
  Bytes persistent{};
  Bytes largest_working_set{};  ///< what one op needs in memory at once, at most
  std::size_t largest_op = 0;   ///< which op that is
  std::array<RoleSum, kStorageRoleCount> roles{};
  std::vector<OpSum> ops{};  ///< by time, then by count, the largest first
};
TraceSummary summary_of(const Trace& trace);

/// Sum over one row of an op's lists.
Bytes bytes_of(const Trace& trace, std::span<const StorageId> storages);

/// How many ops of both steps are alike, from the start and from the end: same name, same bytes
/// read, written, created and freed. Durations differ from run to run, and ids from program to
/// program: neither makes another op.
struct TraceAgreement {
  std::size_t first = 0;
  std::size_t last = 0;     ///< of those behind the first ones
  bool same_names = false;  ///< of all ops, so that the steps differ in sizes at most
};
TraceAgreement agreement_of(const Trace& trace, const Trace& other);

}  // namespace spillway::tools
