// SPDX-License-Identifier: Apache-2.0
// Copies between a card and host memory, on three streams of their own.
//
//   submit ──> queue out ──> OUT         2 in flight     [ a b ] c d e     c, d, e: may be
//   cancelled
//              queue in  ──> IN          2 in flight, with those of IN-URGENT
//                 hurry  ──> IN-URGENT   at once, past all that wait
//
// Two copies in flight keep a link busy; what waits here and not in the stream can still be taken
// back, or overtaken. Each copy begins, on the device, after its fence; the host waits for none. A
// copy into a block that is still being opened waits in the queue for it, with those behind it;
// one that is hurried has the block opened.
//
//   kIssued   it is in its stream: who is ordered after its fence sees the bytes
//   kEnded    the host knows that it is over: its memory may be another's
//   kFailed   it was never issued, since the driver refused it, or the block has no pages
//
// The news are told by `advance` alone, which a watcher calls while `busy`, so that they come in
// one place, under the owner's lock, and in the order of a program where a test drives it. Nobody
// may wait for the fence of a copy that is not issued: `hurry` issues it and then tells the fence.
//
// Errors: DeviceFailure if the device is lost. Not thread-safe: guarded by its owner's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/page_opening.hpp"
#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/runtime/transfer/transfer.hpp"

namespace spillway::runtime {

struct DeviceCopy {
  Direction direction = Direction::kOut;  ///< kOut: from the device to the host
  DeviceAddress device{};
  std::byte* host = nullptr;
  Bytes bytes{};
  Fence after;                             ///< on the device, the copy begins when this has passed
  std::shared_ptr<PageOpening> opening{};  ///< of the block; null: it is open
};

enum class CopyStage : std::uint8_t { kIssued, kEnded, kFailed };

struct CopyNews {
  TransferId id = 0;
  CopyStage stage = CopyStage::kIssued;
  Fence fence;             ///< kIssued: of the copy itself
  DeviceStatus refusal{};  ///< kFailed: what the driver said, if it was asked
};

class StreamTransfers {
 public:
  static constexpr std::size_t kInFlight = 2;

  /// Makes the streams.
  explicit StreamTransfers(StreamClock& clock);
  /// Discards what is queued, and waits for what is issued.
  ~StreamTransfers();
  StreamTransfers(const StreamTransfers&) = delete;
  StreamTransfers& operator=(const StreamTransfers&) = delete;

  /// Queues it; `advance` issues it.
  TransferId submit(const DeviceCopy& copy);
  /// Takes back a copy that is not issued. False: it is, or is over.
  bool cancel(TransferId id);
  /// Whether it waits to be issued.
  [[nodiscard]] bool queued(TransferId id) const;
  /// Issues a queued copy now, before all others, and returns its fence; there is no news of its
  /// being issued then. Nothing if the driver refuses, and no news at all. Throws InternalError if
  /// the copy is not queued.
  std::optional<Fence> hurry(TransferId id);

  /// Issues what there is room for, and tells what came to be since the last time, in order.
  void advance(std::vector<CopyNews>& news);
  /// Something is queued or in flight.
  [[nodiscard]] bool busy() const;
  /// The host waits for the copy in flight in that direction that was issued first. False if there
  /// is none.
  bool wait_for_one(Direction direction);

  /// Of a copy that was issued just now; no fence: it was refused.
  [[nodiscard]] CopyNews issued_now(TransferId id, const std::optional<Fence>& fence) const {
    return {id, fence ? CopyStage::kIssued : CopyStage::kFailed, fence.value_or(Fence{}), refusal_};
  }
  /// What the driver said to the copy that `hurry` or `advance` issued last, and it refused.
  [[nodiscard]] DeviceStatus last_refusal() const { return refusal_; }

  [[nodiscard]] Bytes copied_out() const { return copied_[0]; }
  [[nodiscard]] Bytes copied_in() const { return copied_[1]; }

 private:
  struct Queued {
    TransferId id = 0;
    DeviceCopy copy;
  };
  struct Flight {
    TransferId id = 0;
    Fence fence;
  };
  struct Lane {
    DeviceStream stream{};
    StreamSlot slot = 0;
    std::deque<Flight> flights;  // in the order of the stream
  };
  enum LaneIndex : std::size_t { kOutLane, kInLane, kUrgentLane, kLaneCount };

  [[nodiscard]] std::deque<Queued>& queue(Direction direction) {
    return queues_[static_cast<std::size_t>(direction)];
  }
  std::optional<Fence> issue(Lane& lane, const Queued& queued);
  void issue_queued(Direction direction, Lane& lane, std::vector<CopyNews>& news);
  void tell_ended(std::vector<CopyNews>& news);

  StreamClock& clock_;
  DeviceDriver& driver_;
  std::array<Lane, kLaneCount> lanes_;
  std::array<std::deque<Queued>, 2> queues_;  // by Direction
  std::array<Bytes, 2> copied_{};             // likewise
  DeviceStatus refusal_;
  TransferId last_id_ = 0;
};

}  // namespace spillway::runtime
