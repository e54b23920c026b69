// SPDX-License-Identifier: Apache-2.0
// Plain copies of what the processes of one `spillway run` show on the status page, and their sums.
//
// A process counts as managed once it has claimed a slot; it stays on the page after its end, so
// that the summary still knows it. A copy may mix two updates of its process, as the page itself
// does; every single counter is whole. Bytes and nanoseconds throughout. Values only: thread-safe
// as any value is, owns everything it holds, throws nothing of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/settings.hpp"
#include "spillway/runtime/status_page.hpp"

namespace spillway::tools {

struct Mover {
  std::string name;
  Bytes moved{};
};

struct ProcessStatus {
  std::uint32_t pid = 0;
  runtime::Mode mode = runtime::Mode::kOff;
  Bytes budget{};
  Bytes device{};
  Bytes host{};
  Bytes unmanaged{};  ///< resident besides tensors
  Bytes disk{};
  Bytes peak_device{};
  Bytes floor{};          ///< of mode record; of several processes the largest
  Bytes evicted{};        ///< with a copy made
  Bytes clean_evicted{};  ///< without one
  Bytes fetched{};
  Bytes disk_written{};
  Bytes disk_read{};
  Bytes last_step_moved{};
  Bytes overshoot{};
  TimeNs stall = 0;
  TimeNs mapping = 0;  ///< that mapping a card's memory held the program up
  TimeNs elapsed = 0;  ///< since Spillway was loaded, until the end or now
  TimeNs last_step = 0;
  std::uint64_t steps = 0;
  std::uint64_t ops_in_step = 0;         ///< since the last step was counted
  std::uint64_t last_step_ops = 0;       ///< 0: no full step yet
  std::uint64_t stopped_after_step = 0;  ///< since then ops are not watched; 0: they are
  std::uint64_t shortages = 0;           ///< ops that did not fit
  Bytes short_by{};                      ///< what the last of them was short
  bool died_short = false;               ///< nothing ran after the last of them, or it said so
  bool said_end = false;                 ///< it came to its end; of several, all did
  bool unwritten = false;                ///< it said that it could not write a file
  std::string io;                        ///< how bytes move
  std::string planner;                   ///< whose plan is followed, with its options; or empty
  std::vector<std::string> notes;        ///< on the end, sentences
  std::string pages;                     ///< where pages of tensors come from
  std::vector<Mover> movers;
};

/// Notes the end of processes that are gone and did not say so. For whoever looks often: the time
/// is that of looking.
void note_ends(runtime::StatusPage& page);

/// One entry per claimed slot whose process is managed, in the order of the page.
std::vector<ProcessStatus> read_processes(const runtime::StatusPage& page);

/// Whether a process, which may have ended, has a budget of a graphics card that it did not use.
bool anyone_waits_for_a_card(const runtime::StatusPage& page);

/// Sums of bytes and times; for what cannot be added, the value of the process that matters most:
/// `mode` and `io` of the first, `planner` of the first that has one, `steps`, `last_step` and
/// `elapsed` of the slowest or longest, the ops of the step of the first one with the most steps,
/// `short_by` of one that died short, `notes` of all.
struct StatusTotals {
  std::size_t processes = 0;
  ProcessStatus sum;
  TimeNs longest_elapsed = 0;
  std::size_t resting = 0;  ///< processes whose ops are not watched any more
  ProcessStatus fullest;    ///< the process whose peak came closest to its budget
};

StatusTotals total_of(std::span<const ProcessStatus> processes);

/// `fits: stopped watching after step 4`, or in how many of several processes; empty where all are
/// watched.
std::string fits_text(const StatusTotals& totals);

/// What share of the time of all processes that is, 0 to 1.
double share_of_time(TimeNs time, const ProcessStatus& status);

}  // namespace spillway::tools
