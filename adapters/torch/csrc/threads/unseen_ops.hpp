// SPDX-License-Identifier: Apache-2.0
// Keeps which threads may be running ops that nobody saw begin. Nothing pins what those use, so
// while any thread may, nothing is evicted.
//
//     hook rests in A | A: ---- unseen op ------------|        | A in doubt  | trusted
//                     | B:      - its op is seen: awake        | A: seen op -|->
//
// Doubt ends by proof alone: the thread is seen to be inside no op, or it has ended; and the state
// that A handed to other threads, with which the hook does not see them either, is gone.
#pragma once

#include <atomic>
#include <cstdint>

#include "torch_headers.hpp"

namespace spillway::torch {

/// A thread that has run an op which was seen, or made a tensor. Its functions are called by the
/// thread itself.
class WatchedThread {
 public:
  WatchedThread();
  ~WatchedThread();
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;

  /// It may run ops that are not seen.
  void doubt();
  /// It is inside no such op, and what it runs from now on is seen.
  void trust();
  [[nodiscard]] bool in_doubt() const;

 private:
  std::uint16_t trusted_in_;  // the epoch of all threads in which it was
};

/// The calling thread, from now on.
WatchedThread& this_watched_thread();

/// The same, or null if it has done neither.
WatchedThread* this_watched_thread_if_any();

/// The hook was not registered: any other such thread may be inside an op.
void doubt_other_threads();

/// Whether other such threads live.
[[nodiscard]] bool other_threads_run_ops();

/// Whether any thread may be inside an op that was not seen. Takes no lock.
[[nodiscard]] bool unseen_ops_may_run();

/// Marks the calling thread's state, which torch hands to the threads that work for it (autograd's,
/// at::launch, callbacks of futures). Ops there count as unseen until the last copy is gone.
class HandedOn {
 public:
  void mark();
  /// False while something else lies above the mark.
  bool unmark();

 private:
  c10::DebugInfoBase* mark_ = nullptr;
};

}  // namespace spillway::torch
