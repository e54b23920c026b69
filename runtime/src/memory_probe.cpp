// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory_probe.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>
#include <set>
#include <sstream>

#include "spillway/base/error.hpp"
#include "spillway/base/output_path.hpp"
#include "spillway/runtime/transfer/spool.hpp"

namespace spillway::runtime {

namespace {

// cgroup v1 says so many for none: what a signed number holds, in whole pages.
constexpr std::uint64_t kNoCgroupLimit = std::uint64_t{1} << 62;

// The number that a file begins with; 0 where there is none.
std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  file >> value;
  return value;
}

// A file with one number, or no limit: "max", absent, or the huge default of cgroup v1.
std::uint64_t limit_in(const std::string& path) {
  const std::uint64_t value = number_in(path);
  return value != 0 ? value : std::numeric_limits<std::uint64_t>::max();
}

// The value of `name` in a file of lines "name value ..."; 0 if there is none.
std::uint64_t entry_in(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    std::uint64_t value = 0;
    if (words >> first >> value && first == name) return value;
  }
  return 0;
}

struct Room {
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();

  void narrow(std::uint64_t other_limit, std::uint64_t taken) {
    limit = std::min(limit, other_limit);
    available = std::min(available, other_limit - std::min(other_limit, taken));
  }
};

// The page cache is given up before anyone is refused.
std::uint64_t taken_in(const std::string& group, bool unified) {
  const std::uint64_t usage =
      number_in(group + (unified ? "/memory.current" : "/memory.usage_in_bytes"));
  const std::string statistics = group + "/memory.stat";
  const std::string total = unified ? "" : "total_";
  const std::uint64_t cache =
      entry_in(statistics, total + "inactive_file") + entry_in(statistics, total + "active_file");
  return usage - std::min(usage, cache);
}

// The memory that this process's cgroup and all its ancestors leave.
Room cgroup_room(const std::string& root) {
  Room room;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers.find("memory") == std::string::npos) continue;
    const std::string tree = root + (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    const char* file = unified ? "/memory.max" : "/memory.limit_in_bytes";
    std::string group = line.substr(second + 1);
    for (;;) {
      const std::uint64_t limit = limit_in(tree + group + file);
      if (limit < kNoCgroupLimit) room.narrow(limit, taken_in(tree + group, unified));
      const auto slash = group.find_last_of('/');
      if (slash == std::string::npos || group.empty() || group == "/") break;
      group.resize(slash);
    }
  }
  return room;
}

}  // namespace

std::uint32_t local_world_size() {
  const char* text = std::getenv("LOCAL_WORLD_SIZE");
  const long value = text == nullptr ? 1 : std::strtol(text, nullptr, 10);
  return value > 0 && value < 4096 ? static_cast<std::uint32_t>(value) : 1;
}

Bytes resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  if (!(file >> total >> resident)) return {};
  return {resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))};
}

MachineMemory measure_memory(std::uint32_t local_processes, Bytes ours, const std::string& root) {
  const std::string facts = root + "/proc/meminfo";
  const std::uint64_t ram = entry_in(facts, "MemTotal:") * 1024;
  const std::uint64_t available = entry_in(facts, "MemAvailable:") * 1024;
  Room room = cgroup_room(root);
  room.narrow(ram, ram - std::min(ram, available));
  return {.total = {room.limit},
          .available = {room.available},
          .ours = ours,
          .local_processes = local_processes};
}

MachineMemory measure_disk(const std::string& directory, std::uint32_t local_processes) {
  const std::string where = directory.empty() ? default_spool_directory(warn_once) : directory;
  struct statvfs info {};
  struct stat kind {};
  bool usable = ::stat(where.c_str(), &kind) == 0 && ::statvfs(where.c_str(), &info) == 0;
  if (usable && !S_ISDIR(kind.st_mode)) {
    errno = ENOTDIR;
    usable = false;
  }
  const int error = usable ? new_file_error(where) : errno;
  if (error != 0) {
    // The answer of /proc and its like, although they are there.
    const std::string why =
        usable && error == ENOENT ? "its file system takes no new files" : std::strerror(error);
    throw UserError(fmt::format(
        "the spool directory {} cannot be used: {}. Set SPILLWAY_SPOOL_DIR (--spool-dir) to a "
        "directory on a real disk that you can write to",
        where, why));
  }
  const Bytes free{static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize};
  return {.total = free, .available = free, .ours = {}, .local_processes = local_processes};
}

void warn_once(const std::string& text) {
  static std::mutex mutex;
  static auto* said = new std::set<std::string>();
  {
    const std::lock_guard lock(mutex);
    if (!said->insert(text).second) return;
  }
  static auto* logger = [] {
    auto* made = new spdlog::logger("spillway", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%n: %l: %v");
    return made;
  }();
  logger->warn(text);
}

}  // namespace spillway::runtime
