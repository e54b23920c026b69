// SPDX-License-Identifier: Apache-2.0
// The engine's waiting, and its limits: copies in flight, and the ops of other threads.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "engine_lock.hpp"
#include "room_request.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/memory_probe.hpp"

namespace spillway::runtime {

namespace {

// How long to wait for another thread's frame to end before looking again. Frames do not notify
// under the lock, so a wake-up can be missed: this bounds what that costs.
constexpr auto kUntilNextLook = std::chrono::milliseconds(5);
// A disk or a file server that moves not one chunk for so long is told of.
constexpr auto kSilence = std::chrono::seconds(30);

}  // namespace

RoomRequest Engine::request_for(Bytes bytes) const {
  return {.bytes = bytes,
          .patience =
              Patience(settings_.overbook ? Patience::kBeforeOvershoot : Patience::kBeforeAnError),
          .others = {}};
}

// Who looks again after this may find a copy to start.
void Engine::let_a_fork_begin(std::unique_lock<std::mutex>& lock) {
  if (!fork_gate_.closed()) return;
  lock.unlock();
  fork_gate_.pass();
  lock.lock();
}

void Engine::wait_for_copies(std::unique_lock<std::mutex>& lock) {
  wait_for_a_copy(lock);
  let_a_fork_begin(lock);
}

// Until a copy ends, as a rule: callers look again. A copy ends unless the kernel never answers,
// and then nothing can be done but say so: the bytes are on that disk, or nowhere else to go.
void Engine::wait_for_a_copy(std::unique_lock<std::mutex>& lock) {
  const Bytes moved = mover_.transfers().bytes_written() + mover_.transfers().bytes_read();
  const bool silent = fault_at("wait.silence").has_value();
  if (!silent && settled_.wait_for(lock, kSilence) == std::cv_status::no_timeout) {
    return;
  }
  if (!silent && mover_.transfers().bytes_written() + mover_.transfers().bytes_read() != moved) {
    return;
  }
  if (mover_.in_flight() == 0) return;
  warn_once(fmt::format("the disk of the spool has moved nothing for {} s, and ops wait for it",
                        kSilence.count()));
}

// `ended_before`: frames that had ended when what could leave was looked for.
bool Engine::wait_for_progress(RoomRequest& request, Lock& lock, std::uint64_t ended_before) {
  const TimeNs begin = now_ns();
  const bool progress = mover_.in_flight() != 0 ? wait_for_room_in_flight(request, lock)
                                                : wait_for_frames(request, lock, ended_before);
  stall_ns_ += now_ns() - begin;
  return progress;
}

bool Engine::wait_for_room_in_flight(RoomRequest& request, Lock& lock) {
  const std::uint64_t failures = mover_.failures_in_a_row();
  if (!request.patience.lasts({.now = now_ns(), .progress = 0, .worked = 0, .unknown = true})) {
    request.in_vain = "the end of copies, whose room other threads took";
    return false;
  }
  wait_for_copies(lock.native());
  // A disk that is gone fails every copy there is, for ever.
  return mover_.failures_in_a_row() <= std::max(failures, kMostFailures);
}

// Nothing is on its way. Another thread's frame may unpin what could leave when it ends.
bool Engine::wait_for_frames(RoomRequest& request, Lock& lock, std::uint64_t ended_before) {
  ShownFrame& mine = *this_thread_frames().shown;
  const OtherFrames::Sight sight = request.others.look(mine);
  const bool ended = sight.ended != ended_before;
  // If every thread with an open frame waits like this one, none will end.
  if (!ended && (!sight.any || never_fits(request.bytes))) return false;
  const MoveStatistics& moves = mover_.statistics();
  const bool lasts = request.patience.lasts(
      {.now = now_ns(),
       .progress = sight.ended + moves.evictions + moves.fetches + moves.clean_evicted.count,
       .worked = sight.worked,
       .unknown = sight.unknown});
  if (!lasts || fault_at("wait.patience")) {
    request.in_vain = request.others.names() +
                      " on other threads; what such an op uses stays until it ends, which it "
                      "cannot if it waits for this thread";
    request.others.give_up();
    return false;
  }
  if (ended) return true;  // what such a frame had pinned may leave now
  mine.set_waits(true);
  waiting_.fetch_add(1);
  // Whoever waits with the framework's lock held would keep others from ending their ops.
  lock.native().unlock();
  void* const held = framework_.let_others_run();
  lock.native().lock();
  settled_.wait_for(lock.native(), kUntilNextLook);
  waiting_.fetch_sub(1);
  if (held != nullptr) {
    lock.native().unlock();
    framework_.run_again(held);
    lock.native().lock();
  }
  let_a_fork_begin(lock.native());
  mine.set_waits(false);
  return true;
}

}  // namespace spillway::runtime
