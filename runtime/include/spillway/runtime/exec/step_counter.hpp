// SPDX-License-Identifier: Apache-2.0
// Counts ops and steps, and what each step took.
//
//     op clock   1   2   3   4   5   6   7   8   9      outermost frames begun, over all threads
//     steps          |-------- 1 --------|----- 2 --
//                    a step ends where the next one begins
//
// A step ends with an optimizer's step where the program has optimizers that say so, else with each
// repetition that the recogniser found. Units: ops, bytes, nanoseconds. Throws nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/exec/step_progress.hpp"

namespace spillway::runtime {

class StepCounter {
 public:
  // Any thread, no lock.
  /// 1 before the first op.
  [[nodiscard]] std::uint64_t clock() const { return clock_.load(std::memory_order_relaxed); }
  /// Outermost frames that have begun.
  [[nodiscard]] std::uint64_t ops() const { return clock() - 1; }
  /// An outermost frame begins. Returns its time on the clock.
  std::uint64_t begin_op() { return clock_.fetch_add(1, std::memory_order_relaxed) + 1; }
  /// Whether a step ends with the op that begins: an optimizer's step, or a repetition.
  bool ends_step(bool optimizer_step, bool repeated);
  [[nodiscard]] std::uint64_t steps() const { return steps_.load(std::memory_order_relaxed); }
  /// Whether steps are counted by optimizer steps, and not by repetitions.
  [[nodiscard]] bool marked() const { return marked_.load(std::memory_order_relaxed); }
  /// Device bytes live when last noted.
  [[nodiscard]] Bytes live_now() const { return {live_now_.load(std::memory_order_relaxed)}; }
  /// Most that was live during the last completed step.
  [[nodiscard]] Bytes last_step_peak() const {
    return {last_step_peak_.load(std::memory_order_relaxed)};
  }
  /// Until the step that is under way ends, what does not fit may exceed the budget.
  void forgive_this_step() { forgiven_step_.store(steps() + 1, std::memory_order_relaxed); }
  [[nodiscard]] bool forgiven() const {
    return steps() < forgiven_step_.load(std::memory_order_relaxed);
  }

  // Under the engine's lock.
  /// Something was allocated, and so much is live.
  void allocated(Bytes live);
  /// Something may have been freed, and so much is live.
  void set_live_now(Bytes live) { live_now_.store(live.count, std::memory_order_relaxed); }
  /// A step has ended. `moved`: bytes that left or came back since the start.
  void count_step(TimeNs now, Bytes moved);
  /// An optimizer's step while ops are not seen, and nothing moves.
  void count_unwatched_step(TimeNs now);
  /// 0 before the first whole step.
  [[nodiscard]] std::int64_t last_step_ns() const { return last_step_ns_; }
  [[nodiscard]] Bytes last_step_moved() const { return last_step_moved_; }
  [[nodiscard]] const StepProgress& progress() const { return progress_; }

 private:
  void note_time(TimeNs now);

  std::atomic<std::uint64_t> clock_{1};
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<bool> marked_{false};
  std::atomic<std::uint64_t> forgiven_step_{0};
  std::atomic<std::uint64_t> live_now_{0};
  std::atomic<std::uint64_t> step_peak_{0};
  std::atomic<std::uint64_t> last_step_peak_{0};
  TimeNs step_started_ = 0;
  std::int64_t last_step_ns_ = 0;
  Bytes moved_at_step_{};
  Bytes last_step_moved_{};
  StepProgress progress_;
};

}  // namespace spillway::runtime
