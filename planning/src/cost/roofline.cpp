// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/cost/roofline.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "spillway/base/error.hpp"
#include "spillway/planning/analysis/access_table.hpp"

namespace spillway::planning {
namespace {

// Of a type whose rate the machine does not state: single precision's, in which most programs
// calculate unless they say otherwise, else the slowest rate stated.
double flop_rate(const Machine& machine, Arithmetic type) {
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

}  // namespace

std::vector<TimeNs> roofline_durations(const Trace& trace, const Machine& machine) {
  const double memory = machine.device.memory_bytes_per_second.value;
  if (memory <= 0) {
    throw UserError(fmt::format(
        "machine {}: its memory's rate is not known, so that no op can be timed on it; state "
        "device.memory_bytes_per_second in its file",
        machine.name));
  }
  const AccessTable table(trace);
  std::vector<TimeNs> durations(trace.ops.size());
  for (Row op = 0; op < table.ops(); ++op) {
    double bytes = 0;
    if (trace.ops.bytes_touched[op]) {
      bytes = static_cast<double>(trace.ops.bytes_touched[op]->count);
    } else {
      bytes = static_cast<double>(table.working_set(op) - table.scratch(op));
    }
    double seconds = bytes / memory;
    const double rate = flop_rate(machine, trace.ops.arithmetic[op]);
    if (trace.ops.flop[op] && rate > 0) {
      seconds = std::max(seconds, static_cast<double>(*trace.ops.flop[op]) / rate);
    }
    durations[op] =
        std::max(machine.device.launch_ns.value, static_cast<TimeNs>(std::llround(seconds * 1e9)));
  }
  return durations;
}

Trace timed_on(Trace trace, const Machine& machine) {
  if (trace.timed) return trace;
  trace.ops.duration_ns = roofline_durations(trace, machine);
  trace.timed = true;
  return trace;
}

}  // namespace spillway::planning
