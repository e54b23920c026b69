// SPDX-License-Identifier: Apache-2.0
// Keeps how far each run of a graph is, and who waits for it.
//
//     tick 1, tick 2, ...          told by the graph, each after the one before: time 1, 2, ...
//     wait_until(5) ───────────────────────> the tick of 5, or later: called back
//
// A run of one context of a graph has a clock of its own: its number, the framework's number of the
// step, the frame and its iteration. The framework draws the numbers of steps at random, so steps
// are in the order in which they were first heard of.
//
// The clocks of the latest runs are kept; those of older steps go first, unless somebody waits for
// them. A step with a long loop may go on in a run whose clock has gone: its time is not known any
// more, so nobody waits for it. That is known of the latest steps, far more than are under way.
//
// Thread-safe. Callbacks run in the thread of the tick, with no lock held.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace spillway::tf {

struct ClockRun {
  std::int64_t step = 0;
  std::uint64_t frame = 0;
  std::int64_t iteration = 0;
  std::uint64_t clock = 0;

  auto operator<=>(const ClockRun&) const = default;
};

class SwapClock {
 public:
  /// Names who waits; 0 names none.
  using Ticket = std::uint64_t;

  /// It is `time` now.
  void tick(const ClockRun& run, std::uint64_t time);

  /// Calls `due` once it is `time`: now, if it is or if the run's clock has gone. The result names
  /// the wait unless it has ended.
  Ticket wait_until(const ClockRun& run, std::uint64_t time, std::function<void()> due);
  /// Takes back a wait: it is never called then. False if it has been, or is being.
  bool cancel(Ticket ticket);

  /// Waits that have not ended.
  [[nodiscard]] std::size_t waiting() const;

  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  static constexpr std::size_t kMostRuns = 1024;
  static constexpr std::size_t kMostWithout = 16 * kMostRuns;  // steps without runs, of 100 bytes

  struct Wait {
    Ticket ticket = 0;
    std::uint64_t time = 0;
    std::function<void()> due;
  };
  struct Run {
    std::uint64_t time = 0;
    std::list<Wait> waits;
  };
  using Runs = std::map<ClockRun, Run>;
  struct Step {
    Runs runs;
    std::optional<ClockRun> last_gone;  // the latest of its runs that was removed
    bool listed = false;                // in `with_runs_`
    std::uint64_t left = 0;             // which of all that left it; the last time
  };

  Run& run_locked(const ClockRun& run);
  [[nodiscard]] bool has_gone_locked(const ClockRun& run) const;
  void remove_old_runs_locked();
  void remove_old_runs_locked(Step& step);
  void remove_old_steps_locked();

  mutable std::mutex mutex_;
  std::unordered_map<std::int64_t, Step> steps_;
  std::list<std::int64_t> with_runs_;  // the oldest first
  // Numbers of steps that left `with_runs_`, each with which one that was; the oldest first.
  std::deque<std::pair<std::int64_t, std::uint64_t>> without_;
  std::uint64_t left_ = 0;
  std::size_t runs_ = 0;  // of all steps
  Ticket last_ticket_ = 0;
};

}  // namespace spillway::tf
