// SPDX-License-Identifier: Apache-2.0
// Waits for copies in flight and for the ops of other threads, and how long that took.
//
//     for_copies       until a copy ends, as a rule: callers look again
//     for_progress     until there may be room: a copy in flight ends, or another thread's frame,
//                      whose pins then let storages leave
//
// Waiting has limits: see Patience. A waiting thread releases the engine's lock, and for frames the
// framework's too. All functions but those of any thread need the engine's lock.
#pragma once

#include <atomic>
#include <cstdint>

#include "budget_share.hpp"
#include "engine_lock.hpp"
#include "room_request.hpp"
#include "spillway/runtime/exec/framework.hpp"
#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

/// Copies that may fail one after the other before room is no longer waited for. Each of them was
/// tried several times (see TransferPool).
inline constexpr std::uint64_t kMostFailures = 8;

class Waits {
 public:
  Waits(EngineMutex& mutex, Framework& framework, DeviceTier& memory, Mover& mover,
        const BudgetShare& budget, const MoveRules& rules)
      : mutex_(mutex),
        framework_(framework),
        memory_(memory),
        mover_(mover),
        budget_(budget),
        rules_(rules) {}
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

  [[nodiscard]] RoomRequest request_for(Bytes bytes) const;

  void for_copies(EngineLock& lock);
  /// The same for an op that needs one of them, which stalls.
  void for_copy_of_op(EngineLock& lock);
  void for_all_copies(EngineLock& lock) {
    while (mover_.in_flight() != 0) for_copies(lock);
  }
  /// `ended_before`: frames that had ended when what could leave was looked for. False if it is not
  /// worth looking again.
  bool for_progress(RoomRequest& request, EngineLock& lock, std::uint64_t ended_before);
  /// A while, for what another thread does, which may need the framework's lock for it.
  void for_another_thread(EngineLock& lock);
  /// Time that ops and allocations waited for copies.
  [[nodiscard]] std::int64_t stalled_ns() const {
    return stall_ns_ + mover_.statistics().copied_at_once.count();
  }

  // Any thread.
  /// Whether a thread waits for another one's op to end.
  [[nodiscard]] bool any_for_frames() const { return waiting_.load() != 0; }
  /// A frame ended, which some thread may wait for.
  void frame_ended() {
    if (waiting_.load(std::memory_order_relaxed) != 0) mutex_.settled().notify_all();
  }

  /// Those who waited exist in the parent alone.
  void abandon_in_child() { waiting_.store(0); }

 private:
  void for_a_copy(EngineLock& lock);
  bool hears_of_an_end(EngineLock& lock);
  void let_a_fork_begin(EngineLock& lock);
  bool for_room_in_flight(RoomRequest& request, EngineLock& lock);
  bool for_frames(RoomRequest& request, EngineLock& lock, std::uint64_t ended_before);
  bool never_fits(Bytes bytes);

  EngineMutex& mutex_;
  Framework& framework_;
  DeviceTier& memory_;
  Mover& mover_;
  const BudgetShare& budget_;
  const MoveRules& rules_;
  std::atomic<std::uint32_t> waiting_{0};  // threads that wait for a frame to end
  std::int64_t stall_ns_ = 0;
};

}  // namespace spillway::runtime
