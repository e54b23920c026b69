// SPDX-License-Identifier: Apache-2.0
// The open frames of threads as other threads see them, without a lock.
//
//     thread A    begin(op)  ................ end()          writes its own ShownFrame
//     thread B         look()   look()   look()              reads all but its own
//
// A thread that needs room waits while another one's frame may end and let go of what it pins. Whom
// it is worth waiting for, and whether that thread gets on, can be seen here and nowhere else.
//
// Entries are never freed: a thread that ends leaves its own to the next one. So a list of them can
// be walked while threads begin and end, also in a forked child.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "spillway/base/ids.hpp"
#include "spillway/runtime/exec/fresh_outputs.hpp"

namespace spillway::runtime {

/// The frame of one thread, which alone calls `begin`, `end` and `set_waits`.
class ShownFrame {
 public:
  /// One that no other thread has, for the calling thread.
  static ShownFrame& take();
  /// The thread ends; so does its open frame, if it has one.
  void give_back();

  /// An outermost frame. `op` is interned.
  void begin(const char* op) {
    op_.store(op, std::memory_order_relaxed);
    number_.store(number_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// Unpins the frame's storages.
  void end() {
    number_.store(number_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// The outputs of its last op that the op made.
  [[nodiscard]] FreshOutputs& fresh() { return fresh_; }

  /// The thread waits for room itself.
  void set_waits(bool waits) { waits_.store(waits); }

 private:
  friend class OtherFrames;
  friend std::uint64_t frames_ended();
  template <class Visit>
  friend void each_shown_frame(const Visit& visit);
  static ShownFrame* first();

  [[nodiscard]] std::uint64_t number() const { return number_.load(std::memory_order_acquire); }
  /// Nanoseconds of processor time that the thread has used; 0 if that can't be known.
  [[nodiscard]] TimeNs worked() const;

  std::atomic<bool> taken_{true};
  std::atomic<std::uint64_t> number_{0};    // odd while a frame is open: half of it have ended
  std::atomic<std::uint64_t> given_up_{0};  // the frame that was waited for in vain
  std::atomic<bool> waits_{false};
  std::atomic<const char*> op_{nullptr};
  std::atomic<clockid_t> clock_{0};
  ShownFrame* next_ = nullptr;
  FreshOutputs fresh_;
};

/// Those of threads that live, and of some that have ended.
template <class Visit>
void each_shown_frame(const Visit& visit) {
  for (ShownFrame* frame = ShownFrame::first(); frame != nullptr; frame = frame->next_) {
    visit(*frame);
  }
}

/// Outermost frames that have ended, over all threads. Never falls.
std::uint64_t frames_ended();

/// The frames of all threads but the calling one, looked at from time to time by one that waits.
class OtherFrames {
 public:
  struct Sight {
    bool any = false;         ///< one is open whose end is worth waiting for
    std::uint64_t ended = 0;  ///< frames_ended()
    TimeNs worked = 0;        ///< processor time that those threads have used since the last look
    bool unknown = false;     ///< of one of them that can't be told
  };
  /// `self` is the calling thread's.
  Sight look(const ShownFrame& self);
  /// Those that were seen open last are worth waiting for no more, by any thread, until they end.
  void give_up();
  /// Names of the ops that were seen open last, separated by commas.
  [[nodiscard]] std::string names() const;

 private:
  struct Seen {
    ShownFrame* frame;
    std::uint64_t number;
    TimeNs worked;
  };
  std::vector<Seen> seen_;
};

}  // namespace spillway::runtime
