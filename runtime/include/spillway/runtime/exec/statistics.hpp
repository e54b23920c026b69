// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/move_ledger.hpp"
#include "spillway/runtime/move_tally.hpp"
#include "spillway/runtime/settings.hpp"

namespace spillway::runtime {

/// The counters of a process so far. The words and units are those of docs/statistics.md.
struct Statistics {
  Mode mode = Mode::kOff;  ///< what is done with the tensors seen
  Bytes budget{};          ///< limit of the device tier
  Bytes shared{};          ///< of it, claimed by processes that this one started
  Bytes device{};          ///< resident pool pages now, free and rounding included
  Bytes unmanaged{};       ///< resident in this process besides: interpreter, libraries, arrays
  Bytes peak_device{};     ///< high-water mark of `device`
  Bytes peak_live{};       ///< high-water mark without cached free blocks
  Bytes floor{};         ///< largest working set of one outermost frame, with what could not leave
  Bytes host{};          ///< held in host memory now
  Bytes disk{};          ///< held in the spool file now, clean copies included
  std::string pages;     ///< where pages of tensors come from: `page pool`, or why not
  std::string io;        ///< how bytes move: Transfers::description
  Bytes disk_written{};  ///< taken by the spool file, in whole pages
  Bytes disk_read{};     ///< given by the spool file, in whole pages
  Bytes overshoot{};     ///< most by which the budget was ever exceeded
  Bytes rounding{};      ///< resident but not asked for, in blocks in use and in slabs
  std::int64_t stall_ns = 0;      ///< that ops and allocations waited, over all threads
  std::int64_t mapping_ns = 0;    ///< that mapping a card's memory held up the program
  std::int64_t elapsed_ns = 0;    ///< since the engine was made
  std::uint64_t ops = 0;          ///< outermost ops seen
  std::uint64_t steps = 0;        ///< training steps completed
  std::int64_t last_step_ns = 0;  ///< duration of the last full step
  Bytes last_step_moved{};        ///< evicted and fetched in it
  std::uint64_t stopped_after_step =
      0;                        ///< since then ops are not watched, as it fits; 0: they are
  std::uint64_t shortages = 0;  ///< ops that did not fit
  Bytes short_by{};             ///< what the last of them was short
  bool out_of_memory = false;   ///< the process ends for that
  std::uint64_t storages = 0;   ///< live storages large enough to move
  MoveStatistics moves;         ///< what moved between tiers
  std::vector<MoveTally::Moved> top_movers;  ///< what moved most, the most first
};

/// One JSON object, keys as in docs/statistics.md.
std::string to_json(const Statistics& statistics);

/// A few lines for people, at most 80 columns.
std::string to_summary(const Statistics& statistics);

}  // namespace spillway::runtime
