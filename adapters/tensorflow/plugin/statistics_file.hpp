// SPDX-License-Identifier: Apache-2.0
// What a process leaves behind when it ends.
#pragma once

#include <string>

namespace spillway::tf {

/// Writes the statistics where SPILLWAY_STATS says; nowhere for an empty path. False if they could
/// not be written, which is said on standard error.
[[nodiscard]] bool write_statistics(const std::string& path, const std::string& json);

/// Has `report` called when the process ends by exit() or by returning from main. Where that
/// returns false, for a file that could not be written, an exit status of 0 becomes 1.
void write_at_exit(bool (*report)());

}  // namespace spillway::tf
