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

/// What smaps says under `field`, such as "Rss", of the mappings that touch `range`. Beyond it
/// there is none: the reservation is inaccessible there.
inline Bytes mapped_bytes(AddressRange range, const std::string& field) {
  std::ifstream smaps("/proc/self/smaps");
  const std::string format = field + ": %" SCNu64 " kB";
  std::string line;
  bool inside = false;
  Bytes total{};
  while (std::getline(smaps, line)) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::uint64_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2) {
      inside = begin < range.end && end > range.begin;
    } else if (inside && std::sscanf(line.c_str(), format.c_str(), &kibibytes) == 1) {
      total += kKiB * kibibytes;
    }
  }
  return total;
}

/// Bytes of pages that the kernel holds.
inline Bytes resident_bytes(AddressRange range) { return mapped_bytes(range, "Rss"); }

/// Bytes of pages of a file that the kernel has yet to write.
inline Bytes dirty_bytes(AddressRange range) {
  return mapped_bytes(range, "Private_Dirty") + mapped_bytes(range, "Shared_Dirty");
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
