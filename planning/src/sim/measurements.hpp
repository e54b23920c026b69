// SPDX-License-Identifier: Apache-2.0
// What a simulated step is reported as, collected while it runs.
#pragma once

#include "spillway/planning/sim/simulator.hpp"

namespace spillway::planning::sim {

class Measurements {
 public:
  explicit Measurements(bool timeline) : with_timeline_(timeline) {}

  /// Forgets everything: the step that begins at `now` is the one reported.
  void begin_step(TimeNs now, const std::array<Bytes, kTierCount>& levels);

  /// What tiers hold from now on, while computing is at `op`.
  void note_levels(TimeNs now, OpIndex op, const std::array<Bytes, kTierCount>& levels);
  void note_stall(StallCause cause, TimeNs begin, TimeNs end, OpIndex op, StorageId storage);
  void note_op(TimeNs begin, TimeNs end, OpIndex op);
  void note_replay(TimeNs begin, TimeNs end, OpIndex op);
  void note_copy(LinkKind link, TimeNs begin, TimeNs end, OpIndex op, StorageId storage,
                 Bytes bytes);

  [[nodiscard]] SimulationReport& report() { return report_; }
  /// Ends the step.
  [[nodiscard]] SimulationReport take(TimeNs now);

 private:
  void add_span(TimelineSpan span);

  bool with_timeline_;
  TimeNs began_ = 0;
  SimulationReport report_;
};

}  // namespace spillway::planning::sim
