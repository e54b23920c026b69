// SPDX-License-Identifier: Apache-2.0
// Reads this machine's memory and limits from /proc, /sys and the resource limits. Units are bytes.
// Every reader takes a root folder, so that tests give it a tree of their own. A file that is
// missing is an absent value, never an error. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spillway/base/bytes.hpp"

namespace spillway::tools {

struct MemoryFacts {
  Bytes total{};
  Bytes available{};
  Bytes swap_total{};
  Bytes swap_free{};
};

/// From the text of /proc/meminfo; what it does not name stays zero.
MemoryFacts parse_meminfo(std::string_view text);
MemoryFacts read_memory(const std::string& root = "");

struct CgroupLimit {
  Bytes limit{};
  int version = 2;   ///< 1 or 2
  std::string path;  ///< of the group that sets it
};

/// The lowest memory limit of this process's control groups, from the group up to the root, of
/// either version; nothing where no group sets one.
std::optional<CgroupLimit> read_cgroup_limit(const std::string& root = "");

/// RAM, or the control group's limit where that is lower.
Bytes usable_memory(const std::string& root = "");

/// The bracketed word of /sys/kernel/mm/transparent_hugepage/enabled: always, madvise or never.
std::string read_huge_pages(const std::string& root = "");

std::optional<std::uint64_t> read_max_map_count(const std::string& root = "");

}  // namespace spillway::tools
