// SPDX-License-Identifier: Apache-2.0
// Tells whether a file can be written, before the hours of work that it is to report.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

/// 0, or the errno with which no new file can be made in `directory`. A file without a name is made
/// there for a moment; where the file system has none, one with a name that nobody else has.
int new_file_error(const std::string& directory);

/// Throws UserError, whose text begins with `what` and the path, where the file cannot be written
/// or made. A file that is there is not touched.
void require_writable(const std::string& path, std::string_view what);

}  // namespace spillway
