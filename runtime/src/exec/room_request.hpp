// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "patience.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/shown_frame.hpp"

namespace spillway::runtime {

/// One thread's request for room, and what it has waited for so far. Lives until the request is met
/// or refused.
struct RoomRequest {
  Bytes bytes{};  ///< all of it, not only what is short
  Patience patience;
  OtherFrames others;
  std::string in_vain{};  ///< what was waited for when patience ended; empty: it did not
};

}  // namespace spillway::runtime
