// SPDX-License-Identifier: Apache-2.0
// The files and lines that a process leaves behind: statistics, the recorded step, the summary.
#pragma once

#include "spillway/runtime/settings.hpp"
#include "spillway/runtime/status_page.hpp"

namespace spillway::torch {

/// Everything is written when the process ends by exit() or by returning from main; to be called
/// once. Where a file cannot be written, which is said, an exit status of 0 becomes 1.
void write_at_exit();

/// The process is about to end, as `ending` says. `now`: by a signal, so that what would be written
/// at exit is written now, once.
void end_process(runtime::Ending ending, bool now);

}  // namespace spillway::torch
