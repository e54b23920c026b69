// SPDX-License-Identifier: Apache-2.0
// Estimates how long an op takes on a machine by what it calculates and touches, for recording
// without memory and for planning alike.
//
//   duration = max(launching, FLOP / rate of the op's arithmetic, bytes touched / memory's rate)
//
// Source: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model
// for multicore architectures", CACM 52(4), 2009. Pure functions; the machine must state its
// memory's rate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "spillway/base/ids.hpp"
#include "spillway/machine/arithmetic.hpp"
#include "spillway/machine/machine.hpp"

namespace spillway {

/// FLOP per second. A type whose rate the machine does not state has that of single precision, in
/// which most programs calculate by default, else the slowest rate stated; 0: none is.
[[nodiscard]] inline double flop_rate(const Machine& machine, Arithmetic type) {
  const auto& rates = machine.device.flop_per_second;
  const double own = rates[static_cast<std::size_t>(type)].value;
  if (own > 0) return own;
  const double single = rates[static_cast<std::size_t>(Arithmetic::kFloat32)].value;
  if (single > 0) return single;
  double slowest = 0;
  for (const auto& rate : rates) {
    if (rate.value > 0 && (slowest == 0 || rate.value < slowest)) slowest = rate.value;
  }
  return slowest;
}

[[nodiscard]] inline TimeNs roofline_duration(const Machine& machine, Arithmetic type,
                                              std::optional<std::uint64_t> flop, double bytes) {
  constexpr double kNsPerSecond = 1e9;
  double seconds = bytes / machine.device.memory_bytes_per_second.value;
  const double rate = flop_rate(machine, type);
  if (flop && rate > 0) seconds = std::max(seconds, static_cast<double>(*flop) / rate);
  return std::max(machine.device.launch_ns.value,
                  static_cast<TimeNs>(std::llround(seconds * kNsPerSecond)));
}

}  // namespace spillway
