// SPDX-License-Identifier: Apache-2.0
// Tells a Standstill when threads of the framework's pools work.
#pragma once

#include "standstill.hpp"

namespace spillway::tf {

/// Before the framework's first thread runs. `standstill` lives as long as the process. The
/// framework's profiler leaves its own record of these threads out then, which it says.
void listen_to_work(Standstill& standstill);

}  // namespace spillway::tf
