// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spillway/base/ids.hpp"

namespace spillway::replay {

/// The time that the calling thread spends on what the tool does not really do: launches of a
/// framework, calls of a driver. Small amounts are gathered and then slept, with what a sleep took
/// too long taken off the next, since no sleep of some microseconds is exact. Any thread, each with
/// its own sum.
class HostTime {
 public:
  static void spend(TimeNs time);
};

}  // namespace spillway::replay
