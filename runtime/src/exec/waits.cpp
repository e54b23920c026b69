// SPDX-License-Identifier: Apache-2.0
#include "waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "spillway/base/fault.hpp"
#include "spillway/runtime/memory_probe.hpp"
#include "spillway/runtime/steady_time.hpp"
#include "what_stays.hpp"

namespace spillway::runtime {

namespace {

// How long to wait for another thread's frame to end before looking again. Frames do not notify
// under the lock, so a wake-up can be missed: this bounds what that costs.
constexpr auto kUntilNextLook = std::chrono::milliseconds(5);
// How often a device is asked whether its work lets go of memory.
constexpr auto kBetweenQuestions = std::chrono::microseconds(50);
// A disk or a file server that moves no chunk for so long is reported.
constexpr auto kSilence = std::chrono::seconds(30);

}  // namespace

RoomRequest Waits::request_for(Bytes bytes) const {
  return {.bytes = bytes,
          .patience =
              Patience(rules_.overbook() ? Patience::kBeforeOvershoot : Patience::kBeforeAnError),
          .others = {}};
}

// A thread that looks again after this may find a copy to start.
void Waits::let_a_fork_begin(EngineLock& lock) {
  if (!mutex_.fork_gate().closed()) return;
  lock.native().unlock();
  mutex_.fork_gate().pass();
  lock.native().lock();
}

void Waits::for_copies(EngineLock& lock) {
  for_a_copy(lock);
  let_a_fork_begin(lock);
}

void Waits::for_copy_of_op(EngineLock& lock) {
  const TimeNs begin = now_ns();
  for_copies(lock);
  stall_ns_ += now_ns() - begin;
}

// A copy ends unless the kernel never answers, and then nothing can be done but say so: the bytes
// are on that disk, or nowhere else to go.
void Waits::for_a_copy(EngineLock& lock) {
  if (lock.free_pages()) return;  // it may have ended meanwhile
  const auto moved = [&] {
    return mover_.transfers().bytes_written() + mover_.transfers().bytes_read();
  };
  const Bytes moved_before = moved();
  const bool silent = fault_at("wait.silence").has_value();
  if (!silent && hears_of_an_end(lock)) return;
  if (!silent && moved() != moved_before) return;
  if (mover_.in_flight() == 0 && memory_.coming().count == 0) return;
  warn_once(fmt::format("{} for {} s, and ops wait for it", mover_.transfers().awaited(),
                        kSilence.count()));
}

// A copy tells of its end; what a device lets go of has to be asked for, and another thread may be
// the one that asked.
bool Waits::hears_of_an_end(EngineLock& lock) {
  const auto until = std::chrono::steady_clock::now() + kSilence;
  do {
    const bool asks = memory_.coming().count != 0;
    if (!asks && mover_.in_flight() == 0) return true;
    const auto next = asks ? std::chrono::steady_clock::now() + kBetweenQuestions : until;
    const auto ended = mutex_.settled().wait_until(lock.native(), std::min(next, until));
    if (ended == std::cv_status::no_timeout || (asks && memory_.settle())) return true;
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

bool Waits::for_progress(RoomRequest& request, EngineLock& lock, std::uint64_t ended_before) {
  if (lock.free_pages()) return true;
  const TimeNs begin = now_ns();
  const bool on_its_way = mover_.in_flight() != 0 || memory_.coming().count != 0;
  const bool progress =
      on_its_way ? for_room_in_flight(request, lock) : for_frames(request, lock, ended_before);
  stall_ns_ += now_ns() - begin;
  return progress;
}

bool Waits::for_room_in_flight(RoomRequest& request, EngineLock& lock) {
  const std::uint64_t failures = mover_.failures_in_a_row();
  if (!request.patience.lasts({.now = now_ns(), .progress = 0, .worked = 0, .unknown = true})) {
    request.in_vain = "the end of copies, whose room other threads took";
    return false;
  }
  for_copies(lock);
  // A disk that is gone fails every copy there is, for ever.
  return mover_.failures_in_a_row() <= std::max(failures, kMostFailures);
}

bool Waits::never_fits(Bytes bytes) {
  const Bytes limit = budget_.limit();
  return bytes > limit ||
         bytes_that_stay_anyway(memory_, mover_, rules_.min_size(), this_thread_frames()) + bytes >
             limit;
}

// Nothing is on its way. Another thread's frame may unpin what could leave when it ends.
bool Waits::for_frames(RoomRequest& request, EngineLock& lock, std::uint64_t ended_before) {
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
  for_another_thread(lock);
  waiting_.fetch_sub(1);
  mine.set_waits(false);
  return true;
}

// Whoever waits with the framework's lock held would keep others from ending their ops.
void Waits::for_another_thread(EngineLock& lock) {
  lock.native().unlock();
  void* const held = framework_.let_others_run();
  lock.native().lock();
  mutex_.settled().wait_for(lock.native(), kUntilNextLook);
  if (held != nullptr) {
    lock.native().unlock();
    framework_.run_again(held);
    lock.native().lock();
  }
  let_a_fork_begin(lock);
}

}  // namespace spillway::runtime
