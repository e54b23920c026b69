// SPDX-License-Identifier: Apache-2.0
// Shows the counters on the status page (status_page.hpp), and the outcome of the run: whether it
// fits and is not watched any more, what it was short of, how it ended.
//
//     begin_frame   due? publish            some times a second, whatever the pace of ops
//     allocate      publish_use             at once: who is killed leaves the truth behind
//     a rest, a shortage, the end           at once
//
// Does nothing but note the outcome where no page was opened. Under the engine's lock, except
// `due`.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "budget_share.hpp"
#include "counters.hpp"
#include "run_outcome.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/step_counter.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "spillway/runtime/status_page.hpp"
#include "status_rhythm.hpp"

namespace spillway::runtime {

class StatusPublisher {
 public:
  StatusPublisher(const Counters& counters, const DeviceTier& memory, const BudgetShare& budget,
                  const StepCounter& steps, RunOutcome& outcome)
      : counters_(counters), memory_(memory), budget_(budget), steps_(steps), outcome_(outcome) {}
  StatusPublisher(const StatusPublisher&) = delete;
  StatusPublisher& operator=(const StatusPublisher&) = delete;

  /// Takes a slot of the page at `path`, unless it has one.
  void open(const std::string& path);
  /// Whether the op that begins should publish. Any thread.
  [[nodiscard]] bool due(std::uint64_t clock) const {
    return slot_.load(std::memory_order_relaxed) != nullptr && rhythm_.due(clock);
  }
  void publish();
  /// The use of memory alone.
  void publish_use();

  /// Ops are not seen from now on, since the program fits, or are seen again.
  void note_rest(bool resting);
  /// A step was counted while ops are not seen.
  void note_unwatched_step();
  /// An op does not fit.
  void note_shortage(Bytes short_by);
  void note_end(Ending ending, bool unwritten);

  /// The page is the parent's.
  void abandon_in_child() { slot_.store(nullptr); }

 private:
  static void publish_counters(StatusSlot& slot, const Statistics& counters);
  void publish_outcome(StatusSlot& slot) const;

  const Counters& counters_;
  const DeviceTier& memory_;
  const BudgetShare& budget_;
  const StepCounter& steps_;
  RunOutcome& outcome_;
  StatusMapping page_;
  std::atomic<StatusSlot*> slot_{nullptr};
  StatusRhythm rhythm_;
};

}  // namespace spillway::runtime
