// SPDX-License-Identifier: Apache-2.0
// Copies in virtual time: begins those that can, and ends each when its link is through with it.
//
// Which copies there are is others' matter: Departures and Fetches queue them. Time moves by
// advance() and by step_to_next_end() alone.
#pragma once

#include "copy_queues.hpp"
#include "departures.hpp"
#include "fetches.hpp"
#include "holdings.hpp"
#include "measurements.hpp"
#include "spillway/planning/problem.hpp"

namespace spillway::planning::sim {

class CopyTraffic {
 public:
  /// What the copies are of, and where they stand.
  struct Parts {
    Holdings& holdings;
    CopyQueues& queues;
    Departures& departures;
    Fetches& fetches;
  };
  /// Refers to all of them.
  CopyTraffic(const Problem& problem, TimeNs page_fault_ns, const Parts& parts,
              Measurements& measurements)
      : problem_(problem),
        page_fault_ns_(page_fault_ns),
        parts_(parts),
        measurements_(measurements) {}

  /// Call it after whatever may have let a copy begin.
  void begin() {
    parts_.departures.retry();
    if (!parts_.queues.none_waits()) begin_waiting();
  }
  /// Whether fetches that computing does not wait for have to wait as well, unless it owes room.
  void set_urgent_only(bool urgent_only) { urgent_only_ = urgent_only; }
  [[nodiscard]] bool urgent_only() const { return urgent_only_; }
  /// The bytes of the device that computing has to leave free when it takes room.
  [[nodiscard]] Bytes owed_to_forgetting() const {
    if (parts_.departures.none_in_line() || !parts_.departures.first_in_line()) return {};
    return parts_.fetches.owed_to_forgetting();
  }

  /// Ends all copies up to `time`, and begins those that can. Never backwards.
  void advance(TimeNs time);
  /// Goes on to the end of the next copy; false if none is under way.
  bool step_to_next_end();
  [[nodiscard]] bool is_idle() const { return !parts_.queues.first_to_end(); }

 private:
  void begin_waiting();
  bool begin(LinkKind link, const Copy& copy);
  void end(LinkKind link);
  [[nodiscard]] TimeNs duration(LinkKind link, const Copy& copy) const;

  const Problem& problem_;
  TimeNs page_fault_ns_;
  Parts parts_;
  Measurements& measurements_;
  bool urgent_only_ = false;
};

}  // namespace spillway::planning::sim
