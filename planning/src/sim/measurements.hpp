// SPDX-License-Identifier: Apache-2.0
// The figures of a simulated step, collected while it runs.
#pragma once

#include "spillway/planning/sim/simulator.hpp"

namespace spillway::planning::sim {

class Measurements {
 public:
  explicit Measurements(bool timeline) : with_timeline_(timeline) {}

  /// Starts anew with what is on the device: the step that begins at `now` is the one reported.
  void begin_step(TimeNs now, const std::array<Bytes, kTierCount>& levels);

  /// With a timeline: a storage takes room on the device, or gives it up. Levels noted later show
  /// it.
  void note_presence(StorageRole role, bool on_device, Bytes bytes) {
    if (!with_timeline_) return;
    Bytes& held = on_device_[index_of(role)];
    held = on_device ? held + bytes : held - bytes;
  }

  /// The bytes on each tier from now on, while computing is at `op`.
  void note_levels(TimeNs now, OpIndex op, const std::array<Bytes, kTierCount>& levels) {
    for (const Tier tier : kTiers) {
      TierPeak& peak = report_.peak[index_of(tier)];
      if (levels[index_of(tier)] > peak.bytes) peak = {levels[index_of(tier)], op};
    }
    if (with_timeline_) add_levels(now, levels);
  }
  void note_stall(StallCause cause, TimeNs begin, TimeNs end, OpIndex op, StorageId storage);
  void note_op(TimeNs begin, TimeNs end, OpIndex op);
  void note_recomputation(TimeNs begin, TimeNs end, OpIndex op);
  void note_copy(LinkKind link, TimeNs begin, TimeNs end, OpIndex op, StorageId storage,
                 Bytes bytes);

  [[nodiscard]] SimulationReport& report() { return report_; }
  /// Ends the step.
  [[nodiscard]] SimulationReport take(TimeNs now);

 private:
  void add_span(TimelineSpan span);
  void add_levels(TimeNs now, const std::array<Bytes, kTierCount>& levels);
  void add_level(TimelineLevel level);

  bool with_timeline_;
  TimeNs began_ = 0;
  std::array<Bytes, kStorageRoleCount> on_device_{};  // storages alone
  SimulationReport report_;
};

}  // namespace spillway::planning::sim
