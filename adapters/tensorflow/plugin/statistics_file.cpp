// SPDX-License-Identifier: Apache-2.0
#include "statistics_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace spillway::tf {

bool write_statistics(const std::string& path, const std::string& json) {
  if (path.empty()) return true;
  std::ofstream file(path);
  file << json << '\n';
  file.flush();
  if (file) return true;
  std::fprintf(stderr, "spillway: the statistics were not written to %s: %s\n", path.c_str(),
               std::strerror(errno));
  return false;
}

}  // namespace spillway::tf
