// SPDX-License-Identifier: Apache-2.0
// The step of a trace as a program of an engine: its ops use, make and free storages through the
// engine, and launch kernels that last as long as the trace says.
//
// Storages below `smallest` are another allocator's and left out. What a step leaves alive is what
// the next finds, by the trace's `continues`. One thread's.
#pragma once

#include <cstdint>
#include <vector>

#include "spillway/runtime/exec/engine.hpp"
#include "spillway/testing/fake_framework.hpp"
#include "spillway/trace/trace.hpp"
#include "timed_card.hpp"

namespace spillway::replay {

/// What the host does for each op, in a real machine's time.
struct HostCosts {
  TimeNs op = 12'000;   ///< the framework's
  TimeNs hook = 5'000;  ///< the adapter's
};

class ReplayedStep {
 public:
  /// All are kept referred to.
  ReplayedStep(const Trace& trace, TimedCard& card, runtime::Engine& engine, const CardTimes& times,
               const HostCosts& costs, Bytes smallest);
  /// Lets all die that lives.
  ~ReplayedStep();
  ReplayedStep(const ReplayedStep&) = delete;
  ReplayedStep& operator=(const ReplayedStep&) = delete;

  /// Launches the step once. Throws UserError where an op could not be run.
  void run();

 private:
  using Storages = std::vector<StorageId>;

  [[nodiscard]] bool managed(StorageId id) const;
  testing::FakeStorage*& handle(StorageId id) { return handles_[to_value(id)]; }
  void find_what_is_there_before();
  void make_missing();
  void make(StorageId id);
  void show(StorageId id);
  void perform(OpIndex op);
  void use(OpIndex op, std::vector<testing::DeviceAccess>& accesses);
  void say_how_made(OpIndex op);
  void let_die(StorageId id);
  void hand_over();

  const Trace& trace_;
  TimedCard& card_;
  runtime::Engine& engine_;
  const CardTimes& times_;
  const HostCosts costs_;
  const Bytes smallest_;
  Storages there_before_;
  std::vector<testing::FakeStorage*> handles_;  // by id; null: it does not live
};

/// Launches the kernels of the step alone, at the framework's pace.
void launch_kernels(const Trace& trace, TimedCard& card, const CardTimes& times,
                    const HostCosts& costs);

}  // namespace spillway::replay
