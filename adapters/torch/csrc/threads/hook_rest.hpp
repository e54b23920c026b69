// SPDX-License-Identifier: Apache-2.0
// The hook costs up to a quarter of the step of a tiny launch-bound network, so where a program
// fits, the thread that runs its ops is not watched. RecordFunction is switched off for that thread
// alone: an op of any other is seen, and ends the rest.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "torch_headers.hpp"

namespace spillway::runtime {
class Engine;
}

namespace spillway::torch {

///     begin            end                      every thread proven (see unseen_ops.hpp)
///       | resting       | doubting: engine blind  | watching
///
/// While resting and doubting the engine evicts nothing, and what exceeds the budget is counted.
/// Any thread may call it. The engine's lock may be taken under its own.
class HookRest {
 public:
  explicit HookRest(runtime::Engine& engine) : engine_(engine) {}

  /// At the end of `op`: the calling thread rests from now on. False if it can't: something is
  /// evicted, other tools watch its ops, or its stack does not show that it is inside no other op,
  /// by which alone the rest could be ended.
  bool begin(const at::RecordFunction& op);
  /// The rest is over, and doubt begins. False if no thread rested.
  bool end();
  /// At what every thread does now and then: switches watching on again where the rest is over.
  void follow();

  /// The budget is exceeded for doubt. Said once per process.
  static void say_that_nothing_leaves();

  /// The engine begins to watch: before it does. `hook_was_off`: the callbacks were not registered,
  /// so that any other thread that has run ops may be inside one.
  void begin_watching(bool hook_was_off);
  /// `op` begins, inside no op that was seen: may prove the calling thread.
  void op_begins(const at::RecordFunction& op);
  /// Python calls a function of this library: the same.
  void called_by_python();

  /// Neither resting nor doubting. Relaxed: what is seen late is seen at the next op.
  [[nodiscard]] bool is_over() const {
    return phase_.load(std::memory_order_relaxed) == Phase::kWatching;
  }
  [[nodiscard]] bool rests() const {
    return phase_.load(std::memory_order_relaxed) == Phase::kResting;
  }

  /// pthread_atfork: before, and after in both processes.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  enum class Phase : std::uint8_t { kWatching, kResting, kDoubting };

  void end_doubt_if_proven();

  runtime::Engine& engine_;
  std::mutex mutex_;  // changes of the phase, and the engine's blindness with it
  std::atomic<Phase> phase_{Phase::kWatching};
};

}  // namespace spillway::torch
