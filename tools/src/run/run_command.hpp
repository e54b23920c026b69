// SPDX-License-Identifier: Apache-2.0
// `spillway run` and `spillway record`: starts the program with the settings in its environment,
// shows its counters while it runs and sums them up at the end. The program's own standard streams
// are never touched. Single-threaded. Throws UserError for settings that cannot work.
#pragma once

#include "process/child_process.hpp"
#include "request/command_requests.hpp"

namespace spillway::tools {

/// How the program ended; 127 where it was not found, 126 where it could not be executed.
ProgramEnd run_program(const RunRequest& request);

}  // namespace spillway::tools
