// SPDX-License-Identifier: Apache-2.0
// Quantities as people read them in the status line, the summary and `doctor`: few digits, binary
// units, decimal rates. Pure functions, thread-safe; they throw nothing but std::bad_alloc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"

namespace spillway::tools {

/// One decimal below ten, none above: `2.1 GiB`, `812 MiB`, `1 GiB`. Coarser than to_string(Bytes),
/// so that a line that is refreshed five times a second does not flicker.
std::string short_bytes(Bytes bytes);

/// `350 us`, `850 ms`, `1.8 s`, `45 s`, `3 min 12 s`, `2 h 5 min`.
std::string short_time(TimeNs time);

/// `4 %`; `<1 %` for what is not nothing but rounds to it.
std::string short_percent(double share);

/// `640 MB/s`, `2.1 GB/s`: decimal, as disks and links are sold.
std::string short_rate(double bytes_per_second);

/// Breaks at spaces so that no line is wider than `width` bytes, except for a longer word.
std::vector<std::string> wrap_text(std::string_view text, std::size_t width);

}  // namespace spillway::tools
