// SPDX-License-Identifier: Apache-2.0
// A trace, read with a line on the terminal that says so where it takes long.
#pragma once

#include <string>

#include "spillway/trace/trace.hpp"
#include "text/progress_line.hpp"

namespace spillway::tools {

/// By read_trace. `shown`: the line of the work that the trace is read for, if there is one.
Trace read_trace_shown(const std::string& path, ProgressLine* shown = nullptr);

}  // namespace spillway::tools
