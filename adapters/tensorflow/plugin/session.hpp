// SPDX-License-Identifier: Apache-2.0
// The parts of Spillway in a process with TensorFlow: memory, store, table, graphs.
// For a budget of a card's memory there is card_session.hpp in its place.
//
// Made once, by start(), and never destroyed: the framework's threads outlive every destructor.
// Knows no header of TensorFlow. Thread-safe after start().
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "budgeted_memory.hpp"
#include "final_report.hpp"
#include "interned_names.hpp"
#include "plan_loop.hpp"
#include "planner_choice.hpp"
#include "rewrite.hpp"
#include "rewritten_graphs.hpp"
#include "run_profile.hpp"
#include "spillway/runtime/settings.hpp"
#include "standstill.hpp"
#include "status_reporter.hpp"
#include "step_count.hpp"
#include "step_record.hpp"
#include "swap_clock.hpp"
#include "swap_store.hpp"
#include "swap_table.hpp"
#include "troubles.hpp"
#include "variables.hpp"
#include "waiting_tensors.hpp"

namespace spillway::tf {

class Session {
 public:
  /// Null before start().
  static Session* get();
  /// Throws UserError for what a person can mend: a budget that is none, a setting that TensorFlow
  /// does not have yet.
  static void start(const runtime::Settings& settings);
  /// By what a recorded step was made, `tensorflow 2.21.0`. Before the first step.
  void set_framework(std::string framework) { framework_ = std::move(framework); }

  BudgetedMemory& memory() { return memory_; }
  SwapStore& store() { return *store_; }
  /// Names of what moves.
  InternedNames& names() { return names_; }
  SwapTable& table() { return table_; }
  Standstill& standstill() { return standstill_; }
  WaitingTensors& waiting() { return *waiting_; }
  /// Null unless a step is recorded.
  StepRecord* record() { return record_.get(); }
  /// Null unless a planner decides.
  RunProfiler* profiler() { return profiler_.get(); }
  SwapClock& clock() { return clock_; }
  /// Null where no op need be watched.
  OpWatcher* watcher();
  Variables& variables() { return *variables_; }
  /// Whether each op is known that the framework runs on its processor (watched_device.hpp), so
  /// that nothing else need say which variables are used.
  [[nodiscard]] bool knows_ops() const { return knows_ops_.load(std::memory_order_relaxed); }
  void note_ops_known() { knows_ops_.store(true); }
  /// None ever will be. Before the first device.
  void note_ops_hidden() { ops_hidden_ = true; }

  RewrittenGraphs& graphs() { return graphs_; }
  Troubles& troubles() { return troubles_; }

  /// Whether a swap holds the thread that comes to it.
  [[nodiscard]] bool swap_outs_block() const {
    return !settings_.tf_async || (planner_ && planner_->swap_outs_block);
  }
  [[nodiscard]] bool swap_ins_block() const {
    return !settings_.tf_async || (planner_ && planner_->swap_ins_block);
  }
  /// A swap holds the calling thread from now on, which is the time that is returned, until
  /// has_blocked(): the thread waits and does not compute.
  [[nodiscard]] TimeNs begins_to_block();
  void has_blocked(TimeNs begun);

  [[nodiscard]] RunFigures figures() const;
  [[nodiscard]] FinalFigures final_figures();
  /// The process ends: writes statistics, summary and trace as the settings say. Not in a forked
  /// child. False: a file could not be written, which was said.
  [[nodiscard]] bool report();

 private:
  Session(const runtime::Settings& settings, Bytes budget);

  void begin_step(std::size_t graph, std::int64_t step);
  /// In the order of locks.
  void before_fork();
  void after_fork(bool in_child);
  void start_recording();
  void start_planning(Bytes budget);
  [[nodiscard]] RewriteOptions rewrite_options() const;
  [[nodiscard]] std::int64_t stall_ns() const;
  /// A sentence on what holds the memory now.
  [[nodiscard]] std::string holders() const;
  [[nodiscard]] Bytes smallest_variable() const;
  /// Of the budget, up to which all variables may lie in the framework's memory.
  [[nodiscard]] Bytes variables_in_memory(Bytes budget) const;
  /// Lets tensors and variables of so many bytes leave.
  void evict(Bytes bytes, Victims victims);
  /// False if it could not be written, which is said.
  [[nodiscard]] bool write_recorded_step();
  void say_what_was_not_kept();

  runtime::Settings settings_;
  const pid_t pid_ = ::getpid();
  const TimeNs started_;
  std::string framework_;
  std::optional<PlannerChoice> planner_;
  bool fuzz_;
  BudgetedMemory memory_;
  InternedNames names_;
  StepCount steps_;
  Standstill standstill_;
  SwapTable table_;
  Troubles troubles_;
  RewrittenGraphs graphs_;
  std::unique_ptr<SwapStore> store_;
  std::unique_ptr<WaitingTensors> waiting_;
  SwapClock clock_;
  std::unique_ptr<StepRecord> record_;
  std::unique_ptr<RunProfiler> profiler_;
  std::unique_ptr<PlanLoop> plans_;  // null too where everything copies always
  std::unique_ptr<Variables> variables_;
  std::unique_ptr<StatusReporter> reporter_;
  std::atomic<bool> knows_ops_{false};
  bool ops_hidden_ = false;
  std::atomic<std::int64_t> blocked_ns_{0};  // over all threads
};

}  // namespace spillway::tf
