// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "spillway/base/ids.hpp"

namespace spillway::runtime {

/// Nanoseconds of the monotonic clock that processes of one machine share. Any thread.
inline TimeNs now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace spillway::runtime
