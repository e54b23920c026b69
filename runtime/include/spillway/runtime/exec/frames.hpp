// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/op_timer.hpp"
#include "spillway/runtime/device/stream_uses.hpp"
#include "spillway/runtime/exec/lane.hpp"
#include "spillway/runtime/exec/op_needs.hpp"
#include "spillway/runtime/exec/shown_frame.hpp"
#include "spillway/runtime/exec/storage_record.hpp"

namespace spillway::runtime {

/// The ops that one thread has open, and what they pin.
///
///     outermost frame   |------ aten::lstm ------------------------|   |-- aten::add --|
///     nested                  |- mm -|    |- sigmoid -|
///     pinned until            every storage touched so far ........x
///     outputs until                                                ....x
///
/// A storage touched anywhere inside an outermost frame is pinned until that frame ends: kernels
/// hold raw pointers across the ops they call. Its outputs stay pinned until the thread's next
/// outermost frame begins (see FreshOutputs). Framework code may read numbers from other tensors
/// while it fills one, which takes ops: such a one, `Engine::Op::between`, lets go of nothing.
struct ThreadFrames {
  ThreadFrames();
  ~ThreadFrames();
  ThreadFrames(const ThreadFrames&) = delete;
  ThreadFrames& operator=(const ThreadFrames&) = delete;

  void pin(StorageRecord& record) {
    record.pins.fetch_add(1);  // See Note [Pin, then look]
    pinned.push_back(&record);
  }
  void hold_output(StorageRecord& record) {
    const bool made_here = record.maker.load(std::memory_order_relaxed) == this &&
                           record.born.load(std::memory_order_relaxed) >= began;
    if (made_here && shown->fresh().hold(record)) return;
    record.pins.fetch_add(1);
    outputs.push_back(&record);
  }
  /// For an address that leaves the framework: it is good until the next op.
  void hold_address(StorageRecord& record) {
    if (addresses.insert(&record).second) record.pins.fetch_add(1);
  }
  void let_go_of_address(StorageRecord& record) {
    if (addresses.erase(&record) != 0) record.unpin();
  }
  /// For framework code that reads memory between ops: held until the next op, or until
  /// kTouched more were touched (saving a checkpoint touches every storage and runs no op).
  void hold_touched(StorageRecord& record) {
    if (touched.size() == kTouched) {
      touched.front()->unpin();
      touched.erase(touched.begin());
    }
    record.pins.fetch_add(1);
    touched.push_back(&record);
  }
  static void unpin_all(std::vector<StorageRecord*>& records) {
    for (StorageRecord* record : records) record->unpin();
    records.clear();
  }
  /// The next op begins, which ends all that was held since the last.
  void let_go_of_what_was_held_between() {
    shown->fresh().let_go();
    unpin_all(outputs);
    unpin_all(touched);
    for (StorageRecord* record : addresses) record->unpin();
    addresses.clear();
  }

  static constexpr std::size_t kTouched = 2;  ///< a copy between two storages needs both
  std::uint32_t depth = 0;                    ///< open frames; transparent ones are not counted
  const char* op = nullptr;                   ///< name of the outermost open op, interned
  ShownFrame* shown = nullptr;                ///< what other threads see of it
  struct Writing {
    std::uint32_t depth;
    StorageRecord* record;
  };
  std::vector<Writing> writing;  ///< what open ops write
  std::vector<StorageRecord*> pinned;
  std::vector<StorageRecord*> outputs;  ///< without those that are shown as fresh
  std::vector<StorageRecord*> touched;
  std::unordered_set<StorageRecord*> addresses;
  const std::shared_ptr<Lane> own_lane = std::make_shared<Lane>();
  std::shared_ptr<Lane> lane = own_lane;     ///< that its ops are in
  std::optional<NumberedStream> stream;      ///< of a device, where its work goes; see Engine
  std::vector<DeviceBlock*> launched;        ///< what the outermost open op uses of the device
  std::optional<OpTimer::Begun> timed_from;  ///< record mode: where the device began with that op
  OpNeeds needs;
  Bytes inputs{};                 ///< of the outermost open op, those shown twice counted twice
  std::uint32_t recomputing = 0;  ///< storages that it makes again: what that takes is no op's need
  bool lacked_room = false;       ///< an input of the outermost open op could not come back
  std::uint64_t began = 0;        ///< engine's op clock when the outermost frame began
  Bytes stays{};                  ///< record mode: what could not leave when the outermost op began
  Bytes ended{};                  ///< record mode: of its inputs, what was freed inside it
  Bytes live_at_start{};          ///< device bytes live when the outermost frame began
  Bytes peak_live{};              ///< most that was live since
};

/// The calling thread's frames. Destroyed, pins included, when the thread ends.
ThreadFrames& this_thread_frames();

/// The same, or null if the thread has run no op.
ThreadFrames* this_thread_frames_if_any();

/// Ends what the thread pins, and the step it was taught. For tests: a thread's ops are one
/// engine's, whose clock they are counted by, but tests have an engine each.
void renew_this_thread_frames();

/// Threads that live and have run an op.
std::uint32_t framed_threads();

}  // namespace spillway::runtime
