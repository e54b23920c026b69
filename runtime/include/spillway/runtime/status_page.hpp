// SPDX-License-Identifier: Apache-2.0
// The counters that a running process shows to others.
//
// One page of shared memory (a memfd made by `spillway run`, reached by descendants through its
// /proc path) holds one slot per process. The process owns its slot and stores into it with relaxed
// atomics; readers may see a mixture of two updates, never a torn counter. Nothing in it is needed
// for training. Layout is versioned: a reader of another version shows nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "spillway/runtime/shared_page.hpp"

namespace spillway::runtime {

inline constexpr std::uint32_t kStatusVersion = 9;
inline constexpr std::size_t kStatusSlots = 64;
inline constexpr std::size_t kTopMovers = 5;
inline constexpr std::size_t kMoverNameBytes = 96;
inline constexpr std::size_t kIoNameBytes = 96;
inline constexpr std::size_t kPagesNameBytes = 160;
inline constexpr std::size_t kPlannerNameBytes = 64;
inline constexpr std::size_t kNotesBytes = 2048;

/// A storage that moved much. The name is NUL-terminated and cut to fit.
struct StatusMover {
  std::array<char, kMoverNameBytes> name;  ///< e.g. "aten::convolution 216 MiB"
  std::atomic<std::uint64_t> moved_bytes;  ///< out plus in, since start
};

/// How a process said that it ended.
enum class Ending : std::uint32_t {
  kUnsaid,       ///< it goes on, or was killed
  kOther,        ///< it came to its end
  kOutOfMemory,  ///< an error of ours that nobody caught
};

struct StatusSlot {
  std::atomic<std::uint32_t> pid;           ///< 0: free slot; stays set after exit
  std::atomic<std::uint32_t> mode;          ///< runtime::Mode as a number
  std::atomic<std::uint64_t> budget_bytes;  ///< device tier budget; 0: none
  std::atomic<std::uint64_t> host_budget_bytes;
  std::atomic<std::uint64_t> disk_budget_bytes;
  std::atomic<std::uint64_t> device_bytes;     ///< resident pool bytes now
  std::atomic<std::uint64_t> host_bytes;       ///< host tier bytes now
  std::atomic<std::uint64_t> disk_bytes;       ///< spool bytes in use now
  std::atomic<std::uint64_t> unmanaged_bytes;  ///< resident besides device_bytes
  std::atomic<std::uint64_t> peak_device_bytes;
  std::atomic<std::uint64_t> floor_bytes;    ///< of mode record; else 0
  std::atomic<std::uint64_t> evicted_bytes;  ///< left the device tier, copies made
  std::atomic<std::uint64_t>
      clean_evicted_bytes;                   ///< left without a copy: an identical one existed
  std::atomic<std::uint64_t> fetched_bytes;  ///< came back
  std::atomic<std::uint64_t> disk_written_bytes;
  std::atomic<std::uint64_t> disk_read_bytes;
  std::atomic<std::uint64_t> stall_ns;      ///< time ops and allocations waited for transfers
  std::atomic<std::uint64_t> mapping_ns;    ///< time that mapping a card's memory held it up
  std::atomic<std::uint64_t> elapsed_ns;    ///< since the engine started
  std::atomic<std::uint64_t> steps;         ///< periods recognised and completed
  std::atomic<std::uint64_t> last_step_ns;  ///< duration of the last full period
  std::atomic<std::uint64_t> last_step_moved_bytes;
  std::atomic<std::uint64_t> ops;              ///< outermost dispatcher frames seen
  std::atomic<std::uint64_t> step_began_ops;   ///< `ops` when the last step was counted
  std::atomic<std::uint64_t> last_step_ops;    ///< ops of the last full period; 0: none yet
  std::atomic<std::uint64_t> overshoot_bytes;  ///< most the budget was ever exceeded by, if it was
  std::atomic<std::uint64_t> stopped_after_step;  ///< since then ops are not watched; 0: they are
  std::atomic<std::uint64_t> shortages;           ///< ops that did not fit
  std::atomic<std::uint64_t> short_bytes;         ///< what the last of them was short
  std::atomic<std::uint64_t> ops_at_shortage;     ///< `ops` when that was found
  std::atomic<std::uint64_t> started_ns;          ///< steady clock, when the engine started
  std::atomic<std::uint64_t> ended_ns;   ///< the same at the end: set by it, or by a reader
  std::atomic<std::uint32_t> ending;     ///< Ending as a number
  std::atomic<std::uint32_t> unwritten;  ///< 1: it said that it could not write a file
  std::atomic<std::uint32_t> waits;   ///< 1: for the program to use a card; nothing is managed yet
  std::array<char, kIoNameBytes> io;  ///< how bytes move; NUL-terminated
  std::array<char, kPagesNameBytes> pages;      ///< where pages come from; NUL-terminated
  std::array<char, kPlannerNameBytes> planner;  ///< whose plan is followed; NUL-terminated
  /// Of the end: what a person should know besides, a line each, the last of which may be cut;
  /// NUL-terminated.
  std::array<char, kNotesBytes> notes;
  std::array<StatusMover, kTopMovers> movers;
};

struct StatusPage {
  std::atomic<std::uint32_t> version;  ///< kStatusVersion, stored last by the creator
  std::array<StatusSlot, kStatusSlots> slots;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// A mapping of the page. Not copyable.
class StatusMapping {
 public:
  /// A new anonymous page (memfd). `path()` is valid for descendants while this mapping lives.
  /// Throws UserError where the system gives none.
  static StatusMapping create();
  /// Maps an existing page; an empty mapping if the path is gone or of another version.
  static StatusMapping open(const std::string& path);

  [[nodiscard]] StatusPage* page() const { return static_cast<StatusPage*>(shared_.memory()); }
  [[nodiscard]] const std::string& path() const { return shared_.path(); }

  /// Claims a free slot for this process (or finds the one it has, counters and all, of a former
  /// program of the same pid too); null where none is left. Processes may claim at once, threads of
  /// one process may not.
  [[nodiscard]] StatusSlot* claim_slot() const;

 private:
  SharedPage shared_;
};

}  // namespace spillway::runtime
