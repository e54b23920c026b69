// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/status_page.hpp"

namespace spillway::runtime {

/// The outcome of a run beside its counters: whether it fits and is not watched any more, what it
/// was short of, how it ended. A value, guarded by the engine's lock.
struct RunOutcome {
  std::uint64_t stopped_after_step = 0;  ///< since then ops are not seen; 0: they are
  std::uint64_t shortages = 0;           ///< ops that did not fit
  Bytes short_by{};                      ///< what the last of them was short
  std::uint64_t ops_at_shortage = 0;     ///< ops begun when that was found
  Ending ending = Ending::kUnsaid;
  bool unwritten = false;
  TimeNs ended = 0;      ///< steady clock; 0: not yet
  TimeNs published = 0;  ///< when the status page last had all counters, while ops are not seen

  /// Where one op is short several times, the last time counts.
  void note_shortage(Bytes bytes, std::uint64_t ops) {
    if (shortages == 0 || ops != ops_at_shortage) ++shortages;
    short_by = bytes;
    ops_at_shortage = ops;
  }
};

}  // namespace spillway::runtime
