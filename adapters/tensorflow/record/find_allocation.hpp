// SPDX-License-Identifier: Apache-2.0
// Finds the allocation that a tensor lies in. A view, such as an output of `Unpack` or `Split`,
// need not begin where its memory does.
#pragma once

#include <cstddef>
#include <iterator>

namespace spillway::tf {

/// The allocation that holds the address, or the end. `allocations`: a map from where each begins
/// to what has its `bytes`.
template <typename Allocations>
auto find_allocation(Allocations& allocations, const std::byte* address) {
  const auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return allocations.end();
  const auto before = std::prev(after);
  return address < before->first + before->second.bytes.count ? before : allocations.end();
}

}  // namespace spillway::tf
