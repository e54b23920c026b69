// SPDX-License-Identifier: Apache-2.0
// Shows a process with TensorFlow to `spillway run` and others: a thread brings its slot of the
// status page up to date, and once more at the end.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "budgeted_memory.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/settings.hpp"
#include "spillway/runtime/status_page.hpp"
#include "spillway/runtime/store/tiered_store.hpp"
#include "step_count.hpp"

namespace spillway::tf {

/// Everything that is shown.
struct RunFigures {
  MemoryUsage memory;
  runtime::StoreUsage store;
  runtime::StoreStatistics moved;
  std::vector<runtime::MoveTally::Moved> movers;  ///< what moved most, the most first
  StepFigures steps;
  TimeNs stall = 0;       ///< allocations, over all threads, standstills, and what is next
  TimeNs blocked = 0;     ///< in which swaps held their threads, over all of these
  std::string transfers;  ///< how bytes move
  std::string planner;    ///< with its options; empty where none decides
};

class StatusReporter {
 public:
  /// Shows nothing where no page is named, or it is gone. `figures` is called by another thread
  /// until end().
  StatusReporter(const runtime::Settings& settings, std::function<RunFigures()> figures);

  /// The process ends. `notes`: lines on what became of it. Idempotent.
  void end(bool unwritten, const std::string& notes);

 private:
  void run();
  void publish();

  runtime::StatusMapping page_;
  runtime::StatusSlot* slot_ = nullptr;
  std::function<RunFigures()> figures_;
  bool limited_;
  runtime::Mode mode_;
  TimeNs started_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace spillway::tf
