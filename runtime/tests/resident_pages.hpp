// SPDX-License-Identifier: Apache-2.0
// Resident pages, by the kernel.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

struct AddressRange {
  std::uintptr_t begin;
  std::uintptr_t end;
};

/// Bytes of pages that the kernel holds for the mappings that touch `range`. Beyond it there are
/// none: the reservation is inaccessible there.
inline Bytes resident_bytes(AddressRange range) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  Bytes total{};
  while (std::getline(smaps, line)) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::uint64_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2) {
      inside = begin < range.end && end > range.begin;
    } else if (inside && std::sscanf(line.c_str(), "Rss: %" SCNu64 " kB", &kibibytes) == 1) {
      total += kKiB * kibibytes;
    }
  }
  return total;
}

/// Bytes of pages that the kernel holds for this process.
inline Bytes resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t pages = 0;
  statm >> size >> pages;
  return {pages * 4096};
}

}  // namespace spillway::runtime
