// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace spillway::runtime {

/// A stream as StreamClock numbers it.
using StreamSlot = unsigned;
inline constexpr StreamSlot kStreamSlots = 64;

/// A moment of StreamClock's count of ticks.
using StreamMoment = std::uint64_t;

constexpr std::uint64_t mask_of(StreamSlot slot) { return std::uint64_t{1} << slot; }

/// All that was enqueued on some streams up to a moment. A value: whether it has passed,
/// StreamClock tells. The default has passed.
///
/// One moment for all streams, so that a use costs a record an OR and a store. It may name more
/// than must be awaited, never less.
struct Fence {
  std::uint64_t streams = 0;  ///< a bit for each slot
  StreamMoment moment = 0;

  [[nodiscard]] bool empty() const { return streams == 0; }
  [[nodiscard]] bool has(StreamSlot slot) const { return (streams & mask_of(slot)) != 0; }
  /// Both have passed.
  void join(const Fence& other) {
    streams |= other.streams;
    moment = std::max(moment, other.moment);
  }
  bool operator==(const Fence&) const = default;
};

}  // namespace spillway::runtime
