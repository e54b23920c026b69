// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/frames.hpp"

#include <atomic>

namespace spillway::runtime {

namespace {

std::atomic<std::uint32_t> g_framed_threads{0};

}  // namespace

ThreadFrames::ThreadFrames() { g_framed_threads.fetch_add(1); }

ThreadFrames::~ThreadFrames() {
  unpin_all(pinned);
  unpin_all(outputs);
  unpin_all(touched);
}

ThreadFrames& this_thread_frames() {
  thread_local ThreadFrames frames;
  return frames;
}

std::uint32_t framed_threads() { return g_framed_threads.load(); }

}  // namespace spillway::runtime
