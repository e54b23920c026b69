// SPDX-License-Identifier: Apache-2.0
// Keeps how far each run of a graph is, and who waits for it.
//
//     tick 1, tick 2, ...          told by the graph, each after the one before: time 1, 2, ...
//     wait_until(5) ───────────────────────> the tick of 5, or later: called back
//
// A run of one context of a graph has a clock of its own: its number, the framework's number of the
// step, the frame and its iteration. The clocks of the latest runs are kept; older ones go, unless
// somebody waits for them. A step with a long loop may go on in a run whose clock has gone: its
// time is not known any more, so nobody waits for it.
//
// Thread-safe. Callbacks run in the thread of the tick, with no lock held.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>

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

  struct Wait {
    Ticket ticket = 0;
    std::uint64_t time = 0;
    std::function<void()> due;
  };
  struct Run {
    std::uint64_t time = 0;
    std::list<Wait> waits;
  };

  void remove_old_runs_locked();
  [[nodiscard]] bool has_gone_locked(const ClockRun& run) const;

  mutable std::mutex mutex_;
  std::map<ClockRun, Run> runs_;       // older steps first: the framework counts them up
  std::optional<ClockRun> last_gone_;  // the latest that was removed
  Ticket last_ticket_ = 0;
};

}  // namespace spillway::tf
