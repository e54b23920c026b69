// SPDX-License-Identifier: Apache-2.0
// Measures how fast a directory takes and gives bytes the way the spool uses it: one nameless file,
// reserved ahead, four threads, blocks of 4 MiB, direct I/O where the file system allows it.
//
// At most `most_bytes` are written, for at most about a second each way. The file has no name or
// loses it at once, so nothing is left behind however the measurement ends. Errors of the system
// are returned as text in `problem`, never thrown.
#pragma once

#include <string>

#include "spillway/base/bytes.hpp"

namespace spillway::tools {

struct DiskSpeed {
  std::string problem;  ///< empty: the two rates are valid
  bool direct_io = false;
  double write_rate = 0;  ///< bytes per second
  double read_rate = 0;
  Bytes written{};
};

DiskSpeed measure_disk_speed(const std::string& directory, Bytes most_bytes);

}  // namespace spillway::tools
