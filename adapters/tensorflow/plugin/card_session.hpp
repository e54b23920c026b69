// SPDX-License-Identifier: Apache-2.0
// The parts of Spillway in a process with TensorFlow whose budget is of a card: copies, table,
// graphs. Its counterpart for a budget of the processor's memory is session.hpp; a
// process has one of the two.
//
// The framework allocates on the card and keeps to the limit there. So nobody here learns of an
// allocation that finds no room: no tensor leaves late, and rules 1, 3 and 5 of docs/tensorflow.md
// alone decide what passes.
//
// Made once, by start(), and never destroyed. Thread-safe after start(). A forked child cannot use
// the card and manages nothing.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "card_copies.hpp"
#include "card_memory.hpp"
#include "interned_names.hpp"
#include "rewritten_graphs.hpp"
#include "spillway/runtime/settings.hpp"
#include "spillway/runtime/steady_time.hpp"
#include "standstill.hpp"
#include "status_reporter.hpp"
#include "step_count.hpp"
#include "swap_table.hpp"
#include "troubles.hpp"
#include "waiting_tensors.hpp"

namespace spillway::tf {

class CardSession {
 public:
  /// Null before start().
  static CardSession* get();
  /// Throws UserError for what a person can mend: a budget that is no number of bytes, a setting
  /// that has no effect on a card.
  static void start(const runtime::Settings& settings);

  InternedNames& names() { return names_; }
  SwapTable& table() { return table_; }
  CardCopies& copies() { return copies_; }
  CardMemory& memory() { return memory_; }
  WaitingTensors& waiting() { return waiting_; }

  RewrittenGraphs& graphs() { return graphs_; }
  Troubles& troubles() { return troubles_; }

  /// Whether a swap holds the thread that comes to it, and from when until when one does.
  [[nodiscard]] bool swaps_block() const { return !settings_.tf_async; }
  [[nodiscard]] TimeNs begins_to_block() const { return runtime::now_ns(); }
  void has_blocked(TimeNs begun) { blocked_ns_.fetch_add(runtime::now_ns() - begun); }

  [[nodiscard]] std::string statistics_json();

 private:
  CardSession(const runtime::Settings& settings, Bytes budget, Bytes host_budget);

  void begin_step(std::size_t graph, std::int64_t step);
  void note(const std::string& why_it_stays);
  [[nodiscard]] RunFigures figures();
  [[nodiscard]] std::string summary();
  /// The process ends: writes statistics and summary as the settings say. Not in a forked child.
  /// False: a file could not be written, which was said.
  [[nodiscard]] bool report();

  const runtime::Settings settings_;
  const pid_t pid_ = ::getpid();
  const TimeNs started_;
  InternedNames names_;
  StepCount steps_;
  Standstill standstill_;  // of nobody: threads rest while a card works
  CardMemory memory_;
  CardCopies copies_;
  SwapTable table_;
  Troubles troubles_;
  RewrittenGraphs graphs_;
  WaitingTensors waiting_;
  std::unique_ptr<StatusReporter> reporter_;
  std::atomic<std::int64_t> blocked_ns_{0};  // over all threads
};

}  // namespace spillway::tf
