// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/runtime/device/stream_uses.hpp"

namespace spillway::runtime {

/// How streams use the bytes of one block: what all uses so far have ended by, and what a stream
/// has to wait for before its first.
///
/// Any thread, but `restart` and `arrives`, during which nobody else may use the block.
class BlockUses {
 public:
  /// The block is for work of `stream`, which is ordered after `before`: its earlier uses.
  void restart(StreamClock& clock, const Fence& before, const NumberedStream& stream);
  /// Bytes are copied into the block, until `fence`, after all its uses so far. An empty fence:
  /// none were.
  void arrives(const Fence& fence);

  /// Orders the stream after the last arrival, once per stream.
  void begin(StreamClock& clock, const NumberedStream& stream);
  /// Its address was given away: any stream may use it from now on.
  void begin_anywhere(StreamClock& clock);
  /// A use ends by that fence.
  void join(const Fence& fence) noexcept;

  /// All uses have ended when this has passed. It names the streams that used the block since bytes
  /// arrived or it was handed out: they waited for what was before, which need not be awaited
  /// again. (A copy stream that was named, too, would have to end copies that were given to it
  /// later.)
  [[nodiscard]] Fence fence(StreamClock& clock) const;

 private:
  std::atomic<std::uint64_t> users_{0};  // streams, since then
  std::atomic<StreamMoment> moment_{0};
  std::atomic<bool> anywhere_{false};
  Fence arrival_;
  std::atomic<std::uint64_t> ordered_{0};  // streams that come after the arrival
};

}  // namespace spillway::runtime
