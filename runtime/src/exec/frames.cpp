// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/frames.hpp"

#include <atomic>
#include <memory>

namespace spillway::runtime {

namespace {

std::atomic<std::uint32_t> g_framed_threads{0};

}  // namespace

ThreadFrames::ThreadFrames() : shown(&ShownFrame::take()) { g_framed_threads.fetch_add(1); }

ThreadFrames::~ThreadFrames() {
  unpin_all(pinned);
  let_go_of_what_was_held_between();
  shown->give_back();
  g_framed_threads.fetch_sub(1);
}

namespace {

// Read several times per op: a pointer needs no guard as a thread_local object with a constructor
// does. (Not tls_model("initial-exec"): a library that is loaded late may find no static space.)
constinit thread_local ThreadFrames* t_frames = nullptr;

struct FramesOfThread {
  ThreadFrames frames;
  ~FramesOfThread() { t_frames = nullptr; }
};

ThreadFrames& make_frames() {
  thread_local bool made = false;
  if (made) {
    // Thread-local objects of others that die after ours may still free or make tensors.
    t_frames = new ThreadFrames();
  } else {
    made = true;
    thread_local FramesOfThread owner;
    t_frames = &owner.frames;
  }
  return *t_frames;
}

}  // namespace

ThreadFrames& this_thread_frames() { return t_frames != nullptr ? *t_frames : make_frames(); }

void renew_this_thread_frames() {
  if (t_frames == nullptr) return;
  std::destroy_at(t_frames);
  std::construct_at(t_frames);
}

ThreadFrames* this_thread_frames_if_any() { return t_frames; }

std::uint32_t framed_threads() { return g_framed_threads.load(); }

}  // namespace spillway::runtime
