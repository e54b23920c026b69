// SPDX-License-Identifier: Apache-2.0
// The machine that this process runs on, in words. A trace says so of where it was recorded, and
// the file of a measured machine of its device: from that planning knows that one was recorded on
// the other.
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
