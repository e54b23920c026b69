// SPDX-License-Identifier: Apache-2.0
// The record of one run of a training graph, made of what its ops are seen to do.
//
//     op of another step ─┐           ┌─ a run of a watched graph begins: the one before has ended
//     ────────────────────┴───────────┴──────────────────────────────────> ops, in order
//     allocations, frees, by any thread
//
// A tensor is named by the memory behind it, which several share: an op that hands on or changes
// its input in place makes no storage. Memory that was never allocated here is nobody's.
//
// An op's workspace is measured, not guessed: the most that was allocated while it ran, less the
// storages that were alive. So the trace's peak is the run's,
// whatever holds memory without an op that shows it (lists of dynamic loops, other threads).
//
// The record keeps the last run whose peak is within 2 % of the highest: later ones have compiled
// their kernels, and a smaller last batch is no measure.
//
// Thread-safe. Its lock is taken inside that of the memory. Nothing is kept of ops that are not in
// a run of a watched graph.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "memory_observer.hpp"
#include "op_peaks.hpp"
#include "op_watcher.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/exec/trace_recorder.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tf {

class StepRecord final : public MemoryObserver, public OpWatcher {
 public:
  /// `is_ours`: whether memory is of the budget. Takes no lock.
  explicit StepRecord(std::function<bool(const std::byte*)> is_ours);

  /// A run of these nodes is a step.
  void watch(std::span<const std::string> nodes);

  [[nodiscard]] bool watches() const override { return watching_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool begin_op(const SeenOp& op, TimeNs now) override;
  void reads(SeenMemory memory) override;
  void writes(SeenMemory memory) override;
  void end_op(std::span<const SeenMemory> outputs, TimeNs now) override;
  void is_input(SeenMemory memory) override;

  void allocated(const std::byte* pointer, Bytes bytes, Bytes live) override;
  void freed(const std::byte* pointer) noexcept override;
  void begins_to_wait(TimeNs /*now*/) override {}
  void has_waited(TimeNs /*now*/) override {}

  /// The run that is kept, after the present one has ended; nothing if there was none.
  [[nodiscard]] std::optional<Trace> take();

  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  struct OpenOp {
    std::uint64_t run = 0;  // 0: none
    std::size_t index = 0;
    std::string name;
    Bytes touched{};
    bool pure = false;
  };

  static OpenOp& open_op();
  [[nodiscard]] bool is_open_locked() const;
  std::optional<StorageId> find_locked(SeenMemory memory);
  void use_locked(SeenMemory memory, bool writes);
  void end_run_locked();

  const std::function<bool(const std::byte*)> is_ours_;
  std::atomic<bool> watching_{false};
  std::mutex mutex_;
  std::unordered_set<std::string> nodes_;
  runtime::TraceRecorder recorder_;
  struct Known {
    StorageId id{};
    Bytes bytes{};
  };
  std::map<const std::byte*, Known> known_;  // by where each begins
  std::uint64_t next_id_ = 0;
  std::optional<std::int64_t> step_;  // the framework's number of the run, if there is one
  std::uint64_t run_ = 0;             // ours
  std::vector<Bytes> peaks_;          // of the run's ops, by row
  OpPeaks open_peaks_;
  std::optional<Trace> kept_;
  Bytes kept_peak_{};
};

}  // namespace spillway::tf
