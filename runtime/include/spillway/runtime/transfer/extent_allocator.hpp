// SPDX-License-Identifier: Apache-2.0
// Keeps which bytes of a file are in use. It knows no file and only does the arithmetic.
//
//   0        4096     12288        20480              end
//   | used   |  hole  |   used     |   hole   | used  |  (nothing is promised from here on)
//
// An extent is the half-open range [offset, offset + bytes); both numbers are multiples of
// kExtentGranule. Holes are kept by offset (to join neighbours) and by size (to find the best fit).
// A hole never touches the end: space freed there lowers the end instead, so that the tail is the
// last to be taken and the file stays as short as its last user (the "wilderness" rule of Lea,
// "A Memory Allocator", 1996). Best fit with coalescing: Wilson et al., "Dynamic Storage
// Allocation: A Survey and Critical Review", IWMM 1995.
//
// Every operation is logarithmic in the number of holes. Not thread-safe; the owner locks.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

/// Offsets and sizes are multiples of this: the page size, which every direct-I/O file system
/// takes.
inline constexpr std::uint64_t kExtentGranule = 4096;

/// A range of the spool file.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  auto operator<=>(const Extent&) const = default;
};

class ExtentAllocator {
 public:
  /// The smallest hole that holds `bytes` (rounded up to the granule), lowest offset among equals;
  /// where none does, the end grows. Throws InternalError for zero bytes or past 2^63.
  Extent allocate(Bytes bytes);

  /// Returns what end() would be after allocate(bytes): lets the owner make room first, or refuse.
  [[nodiscard]] std::uint64_t end_after(Bytes bytes) const;

  /// Gives back a whole extent or any granule-aligned part of one. Throws InternalError if any of
  /// it is free already or lies past the end.
  void free(Extent extent);

  /// One past the last byte in use.
  [[nodiscard]] std::uint64_t end() const { return end_; }
  [[nodiscard]] Bytes used_bytes() const { return used_; }
  [[nodiscard]] Bytes largest_hole() const;
  [[nodiscard]] std::size_t hole_count() const { return by_offset_.size(); }

 private:
  using HoleMap = std::map<std::uint64_t, std::uint64_t>;

  void add_hole(Extent hole);
  void remove_hole(HoleMap::iterator hole);

  HoleMap by_offset_;                                          // offset -> bytes
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (bytes, offset)
  std::uint64_t end_ = 0;
  Bytes used_{};
};

}  // namespace spillway::runtime
