// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway::runtime {

/// Moves the pages of one mapping, or of a part of it, to another place inside the reservation,
/// with their protection. What they leave stays mapped, empty, as it was protected; what was at the
/// other place is gone. False if the kernel refuses; nothing has moved then.
bool remap(std::byte* from, std::byte* to, std::uint64_t bytes);

}  // namespace spillway::runtime
