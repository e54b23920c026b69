// SPDX-License-Identifier: Apache-2.0
// The files that a process leaves behind as its settings say: looked at when it starts, written
// when it ends. Not thread-safe: for the thread that starts or ends the process.
#pragma once

#include <string>

#include "spillway/runtime/settings.hpp"

namespace spillway::runtime {

/// The settings with the files they name to be written, statistics and trace, as absolute paths.
/// Throws UserError where one cannot be written: that is not to show when all is over.
Settings with_checked_outputs(Settings settings);

/// Writes the statistics where SPILLWAY_STATS says; nowhere for an empty path. False if they could
/// not be written, which is said on standard error.
[[nodiscard]] bool write_statistics(const std::string& path, const std::string& json);

/// Has `write` called when the process ends by exit() or by returning from main; to be called once.
/// Where it returns false, for a file that could not be written, an exit status of 0 becomes 1.
void write_at_exit(bool (*write)());

}  // namespace spillway::runtime
