// SPDX-License-Identifier: Apache-2.0
#include "threads/hook_rest.hpp"

#include <cstdio>

#include "spillway/runtime/exec/engine.hpp"
#include "threads/call_stack.hpp"
#include "threads/unseen_ops.hpp"

namespace spillway::torch {

namespace {

struct RestingThread {
  bool rests = false;  // until it is proven to be inside no op
  HandedOn handed_on;
};
thread_local RestingThread t_resting;

// A profiler, for example, which would see nothing of a thread that rests.
bool others_watch_ops() {
  if (at::hasThreadLocalCallbacks()) return true;
  for (auto scope = 0; scope < static_cast<int>(at::RecordScope::NUM_SCOPES); ++scope) {
    if (at::getStepCallbacks(static_cast<at::RecordScope>(scope)).callbacks_.size() > 1)
      return true;
  }
  return false;
}

// In this order: once it is trusted the thread rests no more, and its mark must be gone.
void trust_this_thread() {
  if (!t_resting.handed_on.unmark()) return;
  t_resting.rests = false;
  this_watched_thread().trust();
}

}  // namespace

bool HookRest::begin(const at::RecordFunction& op) {
  if (others_watch_ops() || !is_only_op(op)) return false;
  const std::lock_guard lock(mutex_);
  if (!is_over()) return false;
  engine_.set_blind(true);
  if (!engine_.prepare_for_unseen_ops()) {
    engine_.set_blind(false);
    return false;
  }
  t_resting.handed_on.mark();
  this_watched_thread().doubt();
  t_resting.rests = true;
  phase_.store(Phase::kResting);
  at::enableRecordFunction(false);
  return true;
}

bool HookRest::end() {
  if (!rests()) return false;
  const std::lock_guard lock(mutex_);
  if (!rests()) return false;
  phase_.store(Phase::kDoubting);
  return true;
}

// More than once, since torch puts states back that it saved meanwhile: the end of each node of a
// backward pass does.
void HookRest::follow() {
  if (!t_resting.rests || rests() || at::isRecordFunctionEnabled()) return;
  at::enableRecordFunction(true);
}

void HookRest::begin_watching(bool hook_was_off) {
  const std::lock_guard lock(mutex_);
  if (hook_was_off && !t_resting.rests) doubt_other_threads();
  engine_.set_blind(true);
  if (is_over()) phase_.store(Phase::kDoubting);
}

void HookRest::op_begins(const at::RecordFunction& op) {
  if (this_watched_thread().in_doubt() && is_only_op(op)) trust_this_thread();
  end_doubt_if_proven();
}

void HookRest::called_by_python() {
  follow();
  const WatchedThread* thread = this_watched_thread_if_any();
  if (thread != nullptr && thread->in_doubt() && is_inside_no_op()) trust_this_thread();
  end_doubt_if_proven();
}

void HookRest::say_that_nothing_leaves() {
  static std::once_flag said;
  std::call_once(said, [] {
    std::fputs(
        "spillway: a thread may be inside an op that was not seen, since the program fitted or "
        "Spillway was off when it began. Until that thread runs its next op no tensor leaves "
        "memory, and the budget may be exceeded.\n",
        stderr);
  });
}

void HookRest::end_doubt_if_proven() {
  const std::lock_guard lock(mutex_);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // see has_begun_to_watch
  if (phase_.load() != Phase::kDoubting || unseen_ops_may_run()) return;
  if (!engine_.wait_for_unseen_ops()) return;
  engine_.forget_all_makings();  // what those ops wrote was not seen
  phase_.store(Phase::kWatching);
  engine_.set_blind(false);
}

}  // namespace spillway::torch
