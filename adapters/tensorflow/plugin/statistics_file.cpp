// SPDX-License-Identifier: Apache-2.0
#include "statistics_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
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

void write_at_exit(bool (*report)()) {
  const auto at_exit = [](int status, void* argument) {
    if (reinterpret_cast<bool (*)()>(argument)() || status != 0) return;
    // exit() may not be called again in here, so handlers registered before ours are left out.
    std::fflush(nullptr);
    ::_exit(1);
  };
  ::on_exit(at_exit, reinterpret_cast<void*>(report));
}

}  // namespace spillway::tf
