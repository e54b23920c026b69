// SPDX-License-Identifier: Apache-2.0
#include "machine/machine_facts.hpp"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <sstream>

namespace spillway::tools {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : "";
}

// Calls `use` with each line of `text`.
template <typename Use>
void for_each_line(std::string_view text, Use use) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    use(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<std::uint64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

// Version 1 has no word for "no limit": it shows the largest number of pages instead.
constexpr std::uint64_t kNoLimitFrom = std::uint64_t{1} << 60;

// Looks at `group` and every group above it below `mount`.
void lower_limit(std::optional<CgroupLimit>& lowest, const std::string& mount, std::string group,
                 int version) {
  const char* file = version == 2 ? "memory.max" : "memory.limit_in_bytes";
  while (true) {
    const std::string folder = mount + (group == "/" ? "" : group);
    const auto limit = leading_number(read_text(folder + "/" + file));
    if (limit && *limit < kNoLimitFrom && (!lowest || Bytes{*limit} < lowest->limit)) {
      lowest = CgroupLimit{Bytes{*limit}, version, group.empty() ? "/" : group};
    }
    if (group.empty() || group == "/") return;
    group.resize(group.rfind('/'));
  }
}

}  // namespace

MemoryFacts parse_meminfo(std::string_view text) {
  MemoryFacts facts;
  for_each_line(text, [&](std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view name = line.substr(0, colon);
    const Bytes value = kKiB * leading_number(line.substr(colon + 1)).value_or(0);
    if (name == "MemTotal") facts.total = value;
    if (name == "MemAvailable") facts.available = value;
    if (name == "SwapTotal") facts.swap_total = value;
    if (name == "SwapFree") facts.swap_free = value;
  });
  return facts;
}

MemoryFacts read_memory(const std::string& root) {
  return parse_meminfo(read_text(root + "/proc/meminfo"));
}

std::optional<CgroupLimit> read_cgroup_limit(const std::string& root) {
  std::optional<CgroupLimit> lowest;
  const std::string mount = root + "/sys/fs/cgroup";
  // Each line reads `number:controllers:path`; version 2 has number 0 and no controllers.
  for_each_line(read_text(root + "/proc/self/cgroup"), [&](std::string_view line) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) return;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string group(line.substr(second + 1));
    if (controllers == ",,") lower_limit(lowest, mount, group, 2);
    if (controllers.find(",memory,") != std::string::npos) {
      lower_limit(lowest, mount + "/memory", group, 1);
    }
  });
  return lowest;
}

Bytes usable_memory(const std::string& root) {
  const Bytes total = read_memory(root).total;
  const auto limit = read_cgroup_limit(root);
  return limit && limit->limit < total ? limit->limit : total;
}

std::string read_huge_pages(const std::string& root) {
  const std::string text = read_text(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "";
  return text.substr(open + 1, close - open - 1);
}

std::optional<std::uint64_t> read_max_map_count(const std::string& root) {
  return leading_number(read_text(root + "/proc/sys/vm/max_map_count"));
}

}  // namespace spillway::tools
