// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/cost/roofline.hpp"

#include <utility>

#include <fmt/format.h>

#include "spillway/base/error.hpp"
#include "spillway/machine/roofline.hpp"
#include "spillway/planning/analysis/access_table.hpp"

namespace spillway::planning {

std::vector<TimeNs> roofline_durations(const Trace& trace, const Machine& machine) {
  if (machine.device.memory_bytes_per_second.value <= 0) {
    throw UserError(fmt::format(
        "machine {}: its memory's rate is not known, so that no op can be timed on it. State "
        "device.memory.bytes_per_second in its file.",
        machine.name));
  }
  const AccessTable table(trace);
  std::vector<TimeNs> durations(trace.ops.size());
  for (Row op = 0; op < table.ops(); ++op) {
    double bytes = 0;
    if (trace.ops.bytes_touched[op]) {
      bytes = static_cast<double>(trace.ops.bytes_touched[op]->count);
    } else {
      bytes = static_cast<double>(table.working_set(op) - table.workspace(op));
    }
    durations[op] = roofline_duration(machine, trace.ops.arithmetic[op], trace.ops.flop[op], bytes);
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
