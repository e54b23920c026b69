// SPDX-License-Identifier: Apache-2.0
// Processor time in nanoseconds: what else runs on the machine takes none of it. Thread-safe.
#pragma once

#include "spillway/base/ids.hpp"

namespace spillway {

/// The time of all threads of this process, since it began.
TimeNs processor_time();
/// The time of the calling thread, since it began.
TimeNs thread_processor_time();

}  // namespace spillway
