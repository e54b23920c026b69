// SPDX-License-Identifier: Apache-2.0
// Reads and writes whole files. A file that is written appears complete or not at all, unless its
// path is a pipe or a device. Errors are UserErrors that begin with `kind` ("trace") and the path.
#pragma once

#include <string>
#include <string_view>

#include "spillway/base/bytes.hpp"

namespace spillway {

/// Refuses what is longer than `most`.
std::string read_file(const std::string& path, std::string_view kind, Bytes most);

void write_file(const std::string& path, std::string_view kind, std::string_view data);

}  // namespace spillway
