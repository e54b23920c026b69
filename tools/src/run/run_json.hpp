// SPDX-License-Identifier: Apache-2.0
// The line that `spillway run --json` and `record --json` print on standard output, on one line,
// when the program has ended. Bytes and nanoseconds. Thread-safe; throw nothing but std::bad_alloc
// and, for a trace that cannot be read, UserError.
#pragma once

#include <span>
#include <string>

#include "process/child_process.hpp"
#include "run/status_totals.hpp"

namespace spillway::tools {

/// The sums over all managed processes: `managed` is false where there was none.
std::string run_json(const ProgramEnd& end, std::span<const ProcessStatus> processes);

/// The trace at `path` in figures, or `"trace": null` where none was `written`.
std::string record_json(const ProgramEnd& end, const std::string& path, bool written);

}  // namespace spillway::tools
