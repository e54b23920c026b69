// SPDX-License-Identifier: Apache-2.0
// The text of the live status line. Pure, thread-safe; throws nothing but std::bad_alloc.
#pragma once

#include <cstddef>
#include <string>

#include "run/status_totals.hpp"

namespace spillway::tools {

/// The line that fits into `columns`, in ASCII, for instance
///
///     spillway 812 MiB / 1 GiB  disk 2.1 GiB  moved 3.4 GiB/step  stall 4 %  step 12 1.8 s
///
/// Steps of some seconds and more also say how far they are, as the first one does:
///
///     .. step 12 118 s  op 1200 of 4650
///
/// If it does not fit, the least telling parts go first: step time, bytes moved, disk, how far
/// the step is, the step, the stall; the device bytes and their budget stay longest and are cut
/// only at the very end.
std::string format_status_line(const StatusTotals& totals, std::size_t columns);

}  // namespace spillway::tools
