// SPDX-License-Identifier: Apache-2.0
// Names the machine that this process runs on. A trace carries the name of the machine that it was
// recorded on, the file of a measured machine that of its device: where they are equal, planning
// knows that the trace was recorded there.
//
// Reads /proc/cpuinfo and the calling thread's affinity. Thread-safe; no errors.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

/// `Intel(R) Xeon(R) ...` from the text of /proc/cpuinfo; "processor" where it names none.
std::string processor_name(std::string_view cpuinfo);

/// Those that the calling thread may run on, at least 1.
unsigned usable_processors();

/// `Fast 9000, 8 processors`.
std::string processor_text(std::string_view name, unsigned processors);

/// The same of the processor that this process runs on.
std::string this_processor();

}  // namespace spillway
