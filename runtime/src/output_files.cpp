// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/output_files.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "spillway/base/output_path.hpp"

namespace spillway::runtime {
namespace {

std::string checked(const std::string& path, std::string_view variable) {
  if (path.empty()) return path;
  require_writable(path, variable);
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

Settings with_checked_outputs(Settings settings) {
  settings.stats_path = checked(settings.stats_path, "SPILLWAY_STATS");
  settings.trace_path = checked(settings.trace_path, "SPILLWAY_TRACE");
  return settings;
}

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

void write_at_exit(bool (*write)()) {
  const auto at_exit = [](int status, void* argument) {
    if (reinterpret_cast<bool (*)()>(argument)() || status != 0) return;
    // exit() may not be called again in here, so handlers registered before ours are left out.
    std::fflush(nullptr);
    ::_exit(1);
  };
  ::on_exit(at_exit, reinterpret_cast<void*>(write));
}

}  // namespace spillway::runtime
