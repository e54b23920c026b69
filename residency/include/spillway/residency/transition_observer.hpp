// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "spillway/base/bytes.hpp"
#include "spillway/residency/residency_machine.hpp"

namespace spillway::residency {

/// Sees every event that a driver sends to its residency machine, in order: what simulation and
/// training can be compared by, transition by transition.
class TransitionObserver {
 public:
  virtual ~TransitionObserver() = default;
  /// `machine` has taken `event` at `now` and wants `actions` done, of which the driver has done
  /// none yet. Called with whatever lock the driver holds; it may not call the driver back.
  virtual void on_event(const ResidencyMachine& machine, const Event& event, TimeNs now,
                        std::span<const Action> actions) = 0;
};

}  // namespace spillway::residency
