// SPDX-License-Identifier: Apache-2.0
// `spillway trace`: a recorded training step as text of at most 80 columns. `workspace` and
// `reorder` write the file they are given a name for, the others nothing. Thread-safe. Throws
// UserError where a file is missing, is no trace or cannot be written.
#pragma once

#include <string>

#include "request/command_requests.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tools {

std::string trace_text(const TraceRequest& request);

/// One row per op: its time and the bytes it reads, writes, creates and frees. `trace` is valid.
std::string format_trace_ops(const Trace& trace);

/// Tells where the steps differ: totals side by side, then the ops of the first differing stretch,
/// `-` for those of `trace` and `+` for those of `other`. Empty steps are equal. Both are valid.
std::string format_trace_diff(const Trace& trace, const Trace& other);

/// Totals, storages by role, and the ops that took longest. `trace` is valid.
std::string format_trace_stats(const Trace& trace);

}  // namespace spillway::tools
