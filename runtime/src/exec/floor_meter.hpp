// SPDX-License-Identifier: Apache-2.0
// Mode record: measures the floor, the largest working set of an op with what could not leave.
//
//     op          |- begin ------- freed(input) ----------- end -|
//     working set   what stays beside its inputs, its inputs (those freed inside it too), and the
//                   most that was allocated inside
//
// Bytes that other ops and exports hold when the op begins count as staying, since in a step under
// a budget they hold them too. Under the engine's lock, except `freed`.
#pragma once

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/frames.hpp"
#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

class FloorMeter {
 public:
  FloorMeter(const DeviceTier& memory, const Mover& mover, const MoveRules& rules)
      : memory_(memory), mover_(mover), rules_(rules) {}

  /// The thread's outermost op has its inputs.
  void begin(ThreadFrames& frames) const;
  /// The thread's open op frees the memory of a storage. The thread itself, no lock.
  void freed(ThreadFrames& frames, const StorageRecord& record) const;
  /// The op ends. `grown`: the most that was allocated inside it at once, less what was freed.
  void end(ThreadFrames& frames, Bytes grown);

  [[nodiscard]] Bytes floor() const { return floor_; }
  void reset() { floor_ = {}; }

 private:
  [[nodiscard]] bool may_leave_after(const ThreadFrames& frames, const StorageRecord& record) const;
  [[nodiscard]] Bytes held_by(ThreadFrames& frames) const;

  const DeviceTier& memory_;
  const Mover& mover_;
  const MoveRules& rules_;
  Bytes floor_{};
};

}  // namespace spillway::runtime
