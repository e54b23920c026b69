// SPDX-License-Identifier: Apache-2.0
#include "demands.hpp"

#include <algorithm>

#include "overbooking.hpp"
#include "spillway/runtime/exec/frames.hpp"
#include "spillway/runtime/exec/last_failure.hpp"

namespace spillway::runtime {

Demands::Way Demands::find_room(Bytes short_by, RoomRequest& request, EngineLock& lock) {
  if (room_.make_room(short_by, request, lock) || budget_.take_back(short_by))
    return Way::kAskAgain;
  if (rules_.overbook()) return Way::kExceed;
  // Unseen ops keep others from leaving; what is larger than the budget would fit beside none.
  const bool could_fit = request.bytes <= budget_.limit();
  return could_fit && may_overbook(rules_, steps_) ? Way::kExceed : Way::kRefuse;
}

Allocation Demands::ask_memory(Bytes bytes, Overbooking overbooking) {
  if (streams_ == nullptr) return memory_.allocate(bytes, overbooking);
  const auto& stream = this_thread_frames().stream;
  return stream ? streams_->allocate(bytes, overbooking, *stream)
                : memory_.allocate(bytes, overbooking);
}

std::byte* Demands::allocate(Bytes bytes, EngineLock& lock) {
  budget_.follow_others();
  Overbooking overbooking = Overbooking::kRefuse;
  RoomRequest request = waits_.request_for(bytes);
  for (;;) {
    freed_.drain();
    const Allocation result = ask_memory(bytes, overbooking);
    if (result.pointer != nullptr) {
      note_allocated(result, bytes);
      return result.pointer;
    }
    if (result.short_by.count == 0 || overbooking == Overbooking::kAllow) break;
    switch (find_room(result.short_by, request, lock)) {
      case Way::kAskAgain:
        break;
      case Way::kExceed:
        overbooking = Overbooking::kAllow;
        break;
      case Way::kRefuse:
        this_thread_frames().needs.fail();
        throw OutOfBudget(result.refused ? shortages_.refusal(bytes)
                                         : shortages_.shortage_in_op(request, result.short_by));
    }
  }
  throw OutOfBudget(shortages_.refusal(bytes));
}

void Demands::note_allocated(const Allocation& made, Bytes bytes) {
  ThreadFrames& frames = this_thread_frames();
  if (made.block != nullptr) {
    StorageRecord& record = mover_.create(*made.block, bytes);
    const std::uint64_t now = steps_.clock();
    record.made_by.store(frames.op, std::memory_order_relaxed);
    record.born.store(now, std::memory_order_relaxed);
    record.maker.store(&frames, std::memory_order_relaxed);
    record.last_use.store(now, std::memory_order_relaxed);
    if (TraceRecorder* const recording = recorder_.get()) {
      recording->allocated(record.id, record.bytes);
    }
    if (frames.recomputing == 0) frames.needs.allocated(bytes);
    if (made.opened && frames.depth != 0 && frames.recomputing == 0)
      frames.lane->note_opened(memory_.resident(*made.block));
  }
  const Bytes live = memory_.live();
  steps_.allocated(live);
  frames.peak_live = std::max(frames.peak_live, live);
  if (frames.recomputing == 0) frames.lane->note_demand(live + mover_.away());
  room_.keep_headroom();
  budget_.publish_use();
  status_.publish_use();
}

bool Demands::settle(StorageRecord& record, Access access, EngineLock& lock) {
  Overbooking overbooking = Overbooking::kRefuse;
  RoomRequest room = waits_.request_for(record.bytes);
  for (;;) {
    const Mover::Request request = mover_.request(record, access, overbooking);
    switch (request.outcome) {
      case Mover::Outcome::kReady:
        return true;
      case Mover::Outcome::kFailed:
        set_last_failure("Spillway: " + mover_.failure(), FailureKind::kUnreadable);
        return false;
      case Mover::Outcome::kPending:
        if (record.recomputing) {
          waits_.for_another_thread(lock);
        } else {
          waits_.for_copy_of_op(lock);
        }
        break;
      case Mover::Outcome::kRecompute:
        if (!recomputation_.run(record, *this, lock)) return false;
        break;
      case Mover::Outcome::kNeedsRoom:
        if (request.short_by.count == 0) {
          this_thread_frames().needs.fail();
          throw OutOfBudget(shortages_.refusal(record.bytes));
        }
        switch (find_room(request.short_by, room, lock)) {
          case Way::kAskAgain:
            break;
          case Way::kExceed:
            overbooking = Overbooking::kAllow;
            break;
          case Way::kRefuse:
            this_thread_frames().needs.fail();
            this_thread_frames().lacked_room = true;
            throw OutOfBudget(request.refused ? shortages_.refusal(record.bytes)
                                              : shortages_.shortage(room, request.short_by));
        }
        break;
    }
  }
}

void Demands::reach_limit(EngineLock& lock) {
  RoomRequest request = waits_.request_for({});
  for (;;) {
    const Bytes excess = memory_.obey_limit();
    if (excess.count == 0 || !room_.make_room(excess, request, lock)) return;
  }
}

}  // namespace spillway::runtime
