// SPDX-License-Identifier: Apache-2.0
// One run of a graph with pairs, measured for a plan: which ops ran, for how long, with how much
// memory, and when tensors that may leave were in it.
//
//     start ──> [rest of a run] ──> [a whole run] ──> the next run begins: take()
//                                     └─ of another graph: the one after it is measured
//
// Nothing is measured, and nothing costs more than a look, unless it was started.
// Thread-safe. Its lock is taken inside that of the memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "memory_observer.hpp"
#include "op_peaks.hpp"
#include "op_watcher.hpp"
#include "shared_time.hpp"

namespace spillway::tf {

struct ProfiledOp {
  std::string node{};
  TimeNs duration_ns = 0;  ///< in which it computed, as SharedTime has it
  Bytes peak{};            ///< most that was allocated while it ran
};

/// A tensor of a pair was in memory.
struct ProfiledStay {
  std::uint64_t hole = 0;  ///< that it came to, or came back from
  bool back = false;       ///< whether it came back
  Bytes bytes{};
  std::size_t from = 0;  ///< ops, both included
  std::size_t to = 0;
};

struct RunProfile {
  std::vector<ProfiledOp> ops;  ///< in the order in which they began
  std::vector<ProfiledStay> stays;
  TimeNs duration_ns = 0;  ///< from the beginning of the first op to the end of the last

  [[nodiscard]] Bytes peak() const;
};

class RunProfiler final : public MemoryObserver, public OpWatcher {
 public:
  /// A run of these nodes is one that may be measured.
  void watch(std::span<const std::string> nodes);
  /// Measures the next whole run in which a tensor comes to one of these holes, whatever was
  /// measured before.
  void start(std::uint64_t first_hole, std::uint64_t holes);
  /// The run that was measured, once.
  [[nodiscard]] std::optional<RunProfile> take();

  /// A swap-out was given this memory for the hole; its bytes came back after it, be it ahead of
  /// the swap-in that hands them on.
  void came(std::uint64_t hole, SeenMemory memory) { stay({.hole = hole}, memory, true); }
  void came_back(std::uint64_t hole, SeenMemory memory) {
    stay({.hole = hole, .back = true}, memory, false);
  }
  /// A tensor was computed again in place of coming back, maybe in the memory of another.
  void made_again(std::uint64_t hole, SeenMemory memory) {
    stay({.hole = hole, .back = true}, memory, true);
  }

  [[nodiscard]] bool watches() const override { return on_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool begin_op(const SeenOp& op, TimeNs now) override;
  void reads(SeenMemory /*memory*/) override {}
  void writes(SeenMemory /*memory*/) override {}
  void end_op(std::span<const SeenMemory> outputs, TimeNs now) override;
  void is_input(SeenMemory /*memory*/) override {}

  void allocated(const std::byte* pointer, Bytes bytes, Bytes live) override;
  void freed(const std::byte* pointer) noexcept override;
  void begins_to_wait(TimeNs now) override;
  void has_waited(TimeNs now) override;

  void before_fork() { mutex_.lock(); }
  /// The child has none of the ops under way, and measures another run.
  void after_fork(bool in_child);

 private:
  struct Allocation {
    Bytes bytes{};
  };
  struct OpenOp {
    std::uint64_t run = 0;  // 0: none
    std::size_t index = 0;
    SharedTime::Part time{};
  };

  static OpenOp& open_op();
  /// `is_made`: another tensor, where the memory is known. Else it has not left.
  void stay(ProfiledStay begun, SeenMemory memory, bool is_made);
  /// False where the op begins a run that is not measured, or none.
  bool enter_run_locked(const SeenOp& op);

  /// Begins to measure after the present run, of which ops may be open.
  void begin_anew_locked();
  void forget_run_locked();
  [[nodiscard]] bool is_wanted_locked() const;

  std::atomic<bool> on_{false};
  std::mutex mutex_;
  std::unordered_set<std::string> nodes_;
  std::uint64_t first_hole_ = 0;  // of those that are wanted
  std::uint64_t holes_ = 0;
  bool skips_ = false;                // the present run is not whole
  std::optional<std::int64_t> step_;  // the framework's number of the present run
  std::uint64_t run_ = 0;             // ours
  RunProfile profile_;                // of the present run
  TimeNs began_ = 0;                  // its first op
  std::optional<RunProfile> finished_;
  OpPeaks peaks_;
  SharedTime time_;
  std::map<const std::byte*, Allocation> allocations_;  // of the run, by where each begins
  // Those that have not ended, by where their memory begins. It may hold several tensors: views of
  // one, and one that was made where its input was.
  std::unordered_multimap<const std::byte*, std::size_t> stays_;
};

}  // namespace spillway::tf
