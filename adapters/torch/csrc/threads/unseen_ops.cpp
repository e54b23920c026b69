// SPDX-License-Identifier: Apache-2.0
#include "threads/unseen_ops.hpp"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>

namespace spillway::torch {

namespace {

// In one word, so that no lock is needed, which a fork could find taken.
struct Threads {
  std::uint16_t epoch = 0;    // changes when all fall into doubt
  std::uint16_t alive = 0;    // of those that have run an op
  std::uint16_t doubted = 0;  // of these, not trusted in this epoch
  std::uint16_t unused = 0;
};
static_assert(sizeof(Threads) == 8);

constinit std::atomic<Threads> g_threads{Threads{}};
constinit std::atomic<std::uint64_t> g_marks{0};
constinit thread_local WatchedThread* t_thread = nullptr;

template <typename Change>
Threads change(const Change& how) {
  Threads before = g_threads.load();
  while (true) {
    Threads after = before;
    how(after);
    if (g_threads.compare_exchange_weak(before, after)) return after;
  }
}

// Copied with the state it lies in, so the last copy's end is the end of the mark.
struct Mark final : c10::DebugInfoBase {
  Mark() { g_marks.fetch_add(1); }
  ~Mark() override { g_marks.fetch_sub(1); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
};

// torch's own tests alone have a use for it, and no kind can be added on every version.
const c10::DebugInfoKind kMark = c10::DebugInfoKind::TEST_INFO_2;

}  // namespace

WatchedThread::WatchedThread()
    : trusted_in_(change([](Threads& threads) { ++threads.alive; }).epoch) {
  t_thread = this;
}

WatchedThread::~WatchedThread() {
  t_thread = nullptr;
  change([this](Threads& threads) {
    --threads.alive;
    if (trusted_in_ != threads.epoch) --threads.doubted;
  });
}

void WatchedThread::doubt() {
  const Threads now = change([this](Threads& threads) {
    if (trusted_in_ == threads.epoch) ++threads.doubted;
  });
  trusted_in_ = static_cast<std::uint16_t>(now.epoch - 1);
}

void WatchedThread::trust() {
  trusted_in_ = change([this](Threads& threads) {
                  if (trusted_in_ != threads.epoch) --threads.doubted;
                }).epoch;
}

bool WatchedThread::in_doubt() const { return trusted_in_ != g_threads.load().epoch; }

WatchedThread& this_watched_thread() {
  thread_local WatchedThread thread;
  return thread;
}

WatchedThread* this_watched_thread_if_any() { return t_thread; }

void doubt_other_threads() {
  change([](Threads& threads) {
    ++threads.epoch;
    threads.doubted = threads.alive;
  });
  if (t_thread != nullptr) t_thread->trust();
}

bool other_threads_run_ops() { return g_threads.load().alive > (t_thread == nullptr ? 0 : 1); }

bool unseen_ops_may_run() { return g_threads.load().doubted != 0 || g_marks.load() != 0; }

void HandedOn::mark() {
  auto mark = std::make_shared<Mark>();
  mark_ = mark.get();
  c10::ThreadLocalDebugInfo::_push(kMark, std::move(mark));
}

bool HandedOn::unmark() {
  if (mark_ == nullptr) return true;
  if (c10::ThreadLocalDebugInfo::get(kMark) != mark_) return false;
  try {
    c10::ThreadLocalDebugInfo::_pop(kMark);
  } catch (const c10::Error&) {  // not the last that was pushed
    return false;
  }
  mark_ = nullptr;
  return true;
}

}  // namespace spillway::torch
