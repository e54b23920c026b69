// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace spillway::tf {

/// Writes the statistics where SPILLWAY_STATS says; nowhere for an empty path. False if they could
/// not be written, which is said on standard error.
[[nodiscard]] bool write_statistics(const std::string& path, const std::string& json);

}  // namespace spillway::tf
