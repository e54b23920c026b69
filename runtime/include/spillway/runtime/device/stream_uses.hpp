// SPDX-License-Identifier: Apache-2.0
// What an engine tells a tier whose memory streams use beside the host.
//
//     A pin covers the launch, a fence covers the execution.
//
//     allocate(stream) -> begin_use -> the program launches its work -> end_use -> unpin
//
// The tier keeps the fence of each block's uses: copies out, other owners of the memory and the
// giving back of its pages are ordered behind it, on the device where that is possible.
//
// `begin_use`, `end_use`, `launched` and `number` are any thread's, without the owner's lock, of a
// block that is pinned and whose bytes are there or on their way in a stream. Errors:
// DeviceFailure.
#pragma once

#include <cstddef>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/device_driver.hpp"
#include "spillway/runtime/device/fence.hpp"
#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

/// A stream, and its number in masks.
struct NumberedStream {
  DeviceStream handle{};
  StreamSlot slot = 0;
};

class StreamUses {
 public:
  virtual ~StreamUses() = default;

  virtual NumberedStream number(DeviceStream stream) = 0;

  /// As DeviceTier::allocate, for work of `stream`: memory that the stream used last is had without
  /// waiting.
  virtual Allocation allocate(Bytes bytes, Overbooking overbooking,
                              const NumberedStream& stream) = 0;
  /// Work of `stream` is about to be launched that uses the block: it starts after the copy that
  /// brings the bytes.
  virtual void begin_use(DeviceBlock& block, const NumberedStream& stream) = 0;
  /// It was launched.
  virtual void end_use(DeviceBlock& block, const NumberedStream& stream) noexcept = 0;
  /// Work of `stream` that is about to be launched starts after all uses of the block so far.
  virtual void order_after_uses(DeviceBlock& block, const NumberedStream& stream) = 0;
  /// Work of `stream` that makes the block's bytes anew was launched, after all its uses: those of
  /// other streams start after it. Nobody else may use the block meanwhile.
  virtual void made(DeviceBlock& block, const NumberedStream& stream) = 0;
  /// The address leaves the framework: work of any stream that has a number, now or by the end of
  /// its pin, may use it for as long as it is pinned. Work of other streams is nobody's to see.
  virtual void begin_use_anywhere(DeviceBlock& block) = 0;
  /// An op was launched on `stream`, having allocated that much.
  virtual void launched(const NumberedStream& stream, Bytes allocated) noexcept = 0;
  /// Work of `stream` is about to be launched that may use any block: it starts after every copy.
  virtual void begin_unknown_uses(const NumberedStream& stream) = 0;
  /// It was launched.
  virtual void end_unknown_uses(const NumberedStream& stream) noexcept = 0;
  /// Of the bytes that the tier holds, at most what its driver does not count yet. Under the
  /// owner's lock.
  [[nodiscard]] virtual Bytes bytes_opening() const = 0;
  /// Work of another card of the process may reach every block from now on. Under the owner's lock.
  virtual void allow_peer(int ordinal) = 0;
  /// Streams may be captured for a graph between these: what they were given is told apart from
  /// what is captured. Any thread.
  virtual void begin_captures() = 0;
  virtual void end_captures() noexcept = 0;
  /// The host waits until all is done that any stream was given, also one without a number. Between
  /// uses that are noted and uses that nobody sees this alone is an order. Any thread.
  virtual void wait_for_all() = 0;

  /// Copies the bytes of a block that is there to `to`, after all its uses. The host waits.
  virtual void read_back(DeviceBlock& block, Bytes bytes, std::byte* to) = 0;
};

}  // namespace spillway::runtime
