// SPDX-License-Identifier: Apache-2.0
#include "spillway/machine/this_processor.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace spillway {

std::string processor_name(std::string_view cpuinfo) {
  constexpr std::string_view kKey = "model name";
  const std::size_t key = cpuinfo.find(kKey);
  if (key == std::string_view::npos) return "processor";
  const std::size_t end = std::min(cpuinfo.find('\n', key), cpuinfo.size());
  const std::size_t colon = cpuinfo.find(':', key);
  if (colon >= end) return "processor";
  std::string_view name = cpuinfo.substr(colon + 1, end - colon - 1);
  name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
  return name.empty() ? "processor" : std::string(name);
}

unsigned usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // The mask is too small for machines of more than 1024 processors.
  if (::sched_getaffinity(0, sizeof set, &set) != 0) {
    return static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  }
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

std::string processor_text(std::string_view name, unsigned processors) {
  return fmt::format("{}, {} processor{}", name, processors, processors == 1 ? "" : "s");
}

std::string this_processor() {
  std::ifstream file("/proc/cpuinfo");
  std::ostringstream cpuinfo;
  cpuinfo << file.rdbuf();
  return processor_text(processor_name(cpuinfo.str()), usable_processors());
}

}  // namespace spillway
