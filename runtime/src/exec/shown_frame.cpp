// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/shown_frame.hpp"

#include <pthread.h>

#include <algorithm>

namespace spillway::runtime {

namespace {

std::atomic<ShownFrame*> g_first{nullptr};

constexpr TimeNs kSecond = 1'000'000'000;

}  // namespace

ShownFrame& ShownFrame::take() {
  ShownFrame* frame = g_first.load(std::memory_order_acquire);
  for (; frame != nullptr; frame = frame->next_) {
    if (!frame->taken_.exchange(true)) break;
  }
  if (frame == nullptr) {
    frame = new ShownFrame();
    frame->next_ = g_first.load();
    while (!g_first.compare_exchange_weak(frame->next_, frame)) {
    }
  }
  clockid_t clock{};
  frame->clock_.store(::pthread_getcpuclockid(::pthread_self(), &clock) == 0 ? clock : 0);
  return *frame;
}

ShownFrame* ShownFrame::first() { return g_first.load(std::memory_order_acquire); }

void ShownFrame::give_back() {
  fresh_.let_go();
  if (number() % 2 != 0) end();
  waits_.store(false);
  taken_.store(false);
}

// The clock's name holds the thread's, so one of a thread that has ended is refused.
TimeNs ShownFrame::worked() const {
  timespec time{};
  const clockid_t clock = clock_.load();
  if (clock == 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return time.tv_sec * kSecond + time.tv_nsec;
}

std::uint64_t frames_ended() {
  std::uint64_t ended = 0;
  for (const ShownFrame* frame = g_first.load(std::memory_order_acquire); frame != nullptr;
       frame = frame->next_) {
    ended += frame->number() / 2;
  }
  return ended;
}

OtherFrames::Sight OtherFrames::look(const ShownFrame& self) {
  Sight sight;
  std::vector<Seen> seen;
  for (ShownFrame* frame = g_first.load(std::memory_order_acquire); frame != nullptr;
       frame = frame->next_) {
    const std::uint64_t number = frame->number();
    sight.ended += number / 2;
    if (frame == &self || number % 2 == 0 || frame->waits_.load() ||
        frame->given_up_.load() == number) {
      continue;
    }
    sight.any = true;
    const TimeNs worked = frame->worked();
    sight.unknown |= worked == 0;
    const auto before = std::ranges::find(seen_, frame, &Seen::frame);
    if (before != seen_.end() && before->number == number) sight.worked += worked - before->worked;
    seen.push_back({frame, number, worked});
  }
  seen_ = std::move(seen);
  return sight;
}

void OtherFrames::give_up() {
  for (const Seen& seen : seen_) seen.frame->given_up_.store(seen.number);
}

std::string OtherFrames::names() const {
  std::string names;
  for (const Seen& seen : seen_) {
    const char* op = seen.frame->op_.load();
    if (op == nullptr) continue;
    if (!names.empty()) names += ", ";
    names += op;
  }
  return names;
}

}  // namespace spillway::runtime
