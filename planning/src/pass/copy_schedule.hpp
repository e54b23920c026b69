// SPDX-License-Identifier: Apache-2.0
// The times at which the copies that a pass decides on would run, and how long what is away can
// wait.
//
//     device to host   |#a#|    |#b#|            may be placed into the past (link_clock.hpp)
//     host to device             |#a#|#b#|       in the order in which they are needed
//
// Room that a copy out gives back is there when the copy ends: `wait_for_room`. Units: ns, bytes.
// Positions from the number of ops on are of the next step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "pass/arrival_queue.hpp"
#include "pass/link_clock.hpp"
#include "spillway/machine/tier.hpp"
#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning::pass {

/// Bytes of the device under a pass.
struct DeviceRoom {
  std::uint64_t capacity = 0;
  std::uint64_t used = 0;  ///< on the device, or queued to come

  [[nodiscard]] bool has(std::uint64_t bytes) const { return used + bytes <= capacity; }
  /// How much of `bytes` does not fit.
  [[nodiscard]] std::uint64_t missing(std::uint64_t bytes) const {
    return has(bytes) ? 0 : used + bytes - capacity;
  }
};

class CopySchedule {
 public:
  /// `deadlines`: by position, when the op there begins if nothing stalls. Refers to `model`.
  CopySchedule(const StepModel& model, const std::vector<double>& deadlines);

  /// How long a copy takes from the device to a tier, and from there back.
  [[nodiscard]] double out_ns(Tier tier, std::uint64_t bytes) const;
  [[nodiscard]] double in_ns(Tier tier, std::uint64_t bytes) const;

  /// `look_out` says when a copy out that is ready at `ready` would run; `take_out` has it run
  /// then.
  [[nodiscard]] LinkClock::Slot look_out(Tier tier, double ready, std::uint64_t bytes) const;
  LinkClock::Slot take_out(Tier tier, double ready, std::uint64_t bytes);
  /// The device's room for `bytes` is there at `end` only.
  void leaves_at(double end, std::uint64_t bytes);
  /// `time`, or later: when what has left makes room for `bytes` beside what is used.
  double wait_for_room(double time, std::uint64_t bytes, const DeviceRoom& room);

  /// `storage` is away on `tier`, and needed at `position`; or is so no longer.
  void add_away(Tier tier, Row storage, Row position);
  void remove_away(Tier tier, Row storage, Row position);
  /// The storage away on `tier` that is needed first; none is away where `is_empty`.
  [[nodiscard]] bool is_empty(Tier tier) const { return away(tier).empty(); }
  [[nodiscard]] std::pair<Row, Row> first_needed(Tier tier) const { return *away(tier).begin(); }
  /// When the first copy in from `tier` must begin at the latest, and when the link is free.
  [[nodiscard]] double latest_start(Tier tier) const { return arrivals(tier).latest_start(); }
  [[nodiscard]] double in_free(Tier tier) const { return in_free_[index_of(tier)]; }
  /// How much later than `from` copies in could begin if this one were needed too.
  [[nodiscard]] double slack_with(Tier tier, Row position, double copy, double from) const {
    return arrivals(tier).slack_with(position, copy, from);
  }
  /// Queues a copy in; `room` counts its bytes already. Returns when it ends.
  double take_in(Tier tier, double now, std::uint64_t bytes, const DeviceRoom& room);

 private:
  using Leaving = std::pair<double, std::uint64_t>;  // end, bytes
  using Away = std::set<std::pair<Row, Row>>;        // position and storage

  [[nodiscard]] const Away& away(Tier tier) const { return away_[index_of(tier)]; }
  [[nodiscard]] const ArrivalQueue& arrivals(Tier tier) const { return arrivals_[index_of(tier)]; }

  const StepModel& model_;
  // By tier; those of the device are not used.
  std::array<LinkClock, kTierCount> out_;
  std::array<double, kTierCount> in_free_{};
  std::vector<ArrivalQueue> arrivals_;
  std::array<Away, kTierCount> away_;
  std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> leaving_;
  std::uint64_t leaving_bytes_ = 0;
};

}  // namespace spillway::planning::pass
