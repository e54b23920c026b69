// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/transfer/extent_allocator.hpp"

#include <fmt/format.h>

#include <iterator>

#include "spillway/base/error.hpp"

namespace spillway::runtime {
namespace {

// File offsets are signed 64-bit numbers.
constexpr std::uint64_t kLastOffset = std::uint64_t{1} << 63;

std::uint64_t rounded(Bytes bytes) {
  SPILLWAY_CHECK(bytes.count > 0 && bytes.count < kLastOffset,
                 fmt::format("an extent of {} bytes", bytes.count));
  return round_up(bytes, kExtentGranule).count;
}

}  // namespace

Extent ExtentAllocator::allocate(Bytes bytes) {
  const std::uint64_t need = rounded(bytes);
  const auto fit = by_size_.lower_bound({need, 0});
  if (fit == by_size_.end()) {
    SPILLWAY_CHECK(need <= kLastOffset - end_, fmt::format("end {} plus {}", end_, need));
    const Extent extent{end_, need};
    end_ += need;
    used_ += Bytes{need};
    return extent;
  }
  const Extent hole{fit->second, fit->first};
  remove_hole(by_offset_.find(hole.offset));
  if (hole.bytes > need) {
    add_hole({hole.offset + need, hole.bytes - need});
  }
  used_ += Bytes{need};
  return {hole.offset, need};
}

std::uint64_t ExtentAllocator::end_after(Bytes bytes) const {
  const std::uint64_t need = rounded(bytes);
  return by_size_.lower_bound({need, 0}) == by_size_.end() ? end_ + need : end_;
}

void ExtentAllocator::free(Extent extent) {
  SPILLWAY_CHECK(extent.bytes > 0 && extent.bytes % kExtentGranule == 0 &&
                     extent.offset % kExtentGranule == 0 && extent.bytes <= end_ &&
                     extent.offset <= end_ - extent.bytes,
                 fmt::format("extent {}+{}, end {}", extent.offset, extent.bytes, end_));
  Extent hole = extent;
  const auto after = by_offset_.lower_bound(extent.offset);
  if (after != by_offset_.end()) {
    SPILLWAY_CHECK(after->first >= extent.offset + extent.bytes,
                   fmt::format("{}+{} is free already", extent.offset, extent.bytes));
  }
  if (after != by_offset_.begin()) {
    const auto before = std::prev(after);
    const std::uint64_t before_end = before->first + before->second;
    SPILLWAY_CHECK(before_end <= extent.offset,
                   fmt::format("{}+{} is free already", extent.offset, extent.bytes));
    if (before_end == extent.offset) {
      hole = {before->first, before->second + hole.bytes};
      remove_hole(before);
    }
  }
  if (after != by_offset_.end() && after->first == extent.offset + extent.bytes) {
    hole.bytes += after->second;
    remove_hole(after);
  }
  used_ -= Bytes{extent.bytes};
  if (hole.offset + hole.bytes == end_) {
    end_ = hole.offset;
  } else {
    add_hole(hole);
  }
}

Bytes ExtentAllocator::largest_hole() const {
  return {by_size_.empty() ? 0 : by_size_.rbegin()->first};
}

void ExtentAllocator::add_hole(Extent hole) {
  by_offset_.emplace(hole.offset, hole.bytes);
  by_size_.emplace(hole.bytes, hole.offset);
}

void ExtentAllocator::remove_hole(HoleMap::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  by_offset_.erase(hole);
}

}  // namespace spillway::runtime
