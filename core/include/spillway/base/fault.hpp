// SPDX-License-Identifier: Apache-2.0
// Named points where a test can make the outside world fail.
//
//   SPILLWAY_FAULTS="spool.write=EIO@3, spool.read=short@1, spool.grow=ENOSPC@5+"
//
// reads: the third write fails once with EIO; the first read returns half of what was asked; the
// fifth and every later growth of the spool fails with ENOSPC. `delay:500us@2+` waits at the second
// and every later call (us, ms, s; us without a unit). A point may be named more than once; what
// meets at one call is acted out together. A name that no code asks about is not an error.
//
// Points: spool.open, spool.grow, spool.write, spool.read, arena.map, arena.land, pool.move,
// host.allocate, engine.look_ahead; wait.patience and wait.silence, where any fault makes the time
// be over that a wait may take. They live in base and not in a test library, so that the shipped
// code is the code that is tested.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace spillway {

/// The behaviour that an armed fault point asks of its caller.
struct Fault {
  int error = 0;              ///< errno to report; 0 for none
  bool short_io = false;      ///< transfer only half of the bytes asked for
  std::int64_t delay_us = 0;  ///< sleep this long first
};

/// The fault to act out at this call of the named point, if any. One atomic load when no fault is
/// armed. Thread-safe, and safe in a forked child: it takes no lock.
std::optional<Fault> fault_at(std::string_view point);

/// Replaces all armed faults. Throws UserError on text that is not of the form above. Counters
/// start from zero. Thread-safe.
void arm_faults(std::string_view specification);

}  // namespace spillway
