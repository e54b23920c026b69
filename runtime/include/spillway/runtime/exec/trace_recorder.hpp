// SPDX-License-Identifier: Apache-2.0
// Turns what the engine sees into the trace of one training step.
//
//     boundary            boundary            boundary
//        |---- step 1 ------|---- step 2 ------|---- step 3 (unfinished) --
//                            the last complete step is what `trace` returns
//
// An op's row is opened when it begins, so rows are in the order in which ops began, whatever
// threads they ran on. A program that never marks a boundary is one long step, cut off at kMostOps.
// Thread-safe by a mutex of its own, which is taken last.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/device/op_timer.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::runtime {

/// An adapter's facts of an op beyond the storages it touches.
struct OpNotes {
  std::optional<std::uint64_t> flop{};
  std::optional<Bytes> bytes_touched{};
  Arithmetic arithmetic = Arithmetic::kUnknown;
  bool pure = false;          ///< what it writes depends on nothing but the storages it reads
  bool makes_inputs = false;  ///< what it creates comes from outside the model
  std::string_view module{};
  std::string_view source{};
  std::span<const StorageId> overwritten{};  ///< written without being read
};

class TraceRecorder {
 public:
  /// Ops recorded at most: some 200 MB of rows. Training steps have 1e3 to 2e5.
  static constexpr std::size_t kMostOps = 1'000'000;

  /// A step ends and the next begins with the op that follows.
  void boundary();
  /// `signature` is the one that the recogniser is given; 0: none.
  void begin_op(const char* name, std::uint64_t signature, TimeNs now);
  /// The calling thread's op uses a storage: reads it, and may write it. `made_by` names it in the
  /// trace if nothing better does; may be null.
  void use(StorageId id, Bytes bytes, bool writes, const char* made_by);
  /// The calling thread's op, or one within it (`within`), hands out a storage: one that it made or
  /// has written, or a view of one that it reads.
  void made(StorageId id, Bytes bytes, const char* made_by, bool within);
  /// Adds notes to the calling thread's op, before it ends.
  void note(const OpNotes& notes);
  /// States the purpose of a living storage. Holds for the steps to come, and for the present one.
  void describe(StorageId id, StorageRole role, std::string_view name);
  void allocated(StorageId id, Bytes bytes);
  void freed(StorageId id);
  /// `grown`: most that was allocated within the op at once. Returns the row of what was recorded.
  std::optional<TraceRow> end_op(TimeNs now, Bytes grown);
  /// A device says, by and by, how long the op took. Nothing if that step is forgotten.
  void set_duration(const TraceRow& row, TimeNs duration);

  /// The last complete step, or what there is of the first; nothing before any op.
  [[nodiscard]] std::optional<Trace> trace() const;

 private:
  struct Life {
    std::uint32_t row;
    bool born;  ///< created within the step
  };
  /// The facts of a living storage that hold over steps.
  struct Identity {
    StorageRole role = StorageRole::kUnknown;
    std::string name{};
    std::uint64_t origin = 0;  ///< equal for what equal ops of different steps create; 0: unknown
  };
  struct Step {
    Trace trace;  // ops stay in `ops` until the step is built
    std::vector<TraceOp> ops;
    std::unordered_map<std::uint64_t, Life> lives;
    std::vector<std::optional<std::size_t>> born_at;
    std::vector<bool> born_outside;  // before that op, by the program
    std::vector<std::optional<std::size_t>> freed_at;
    std::vector<std::optional<std::size_t>> last_use;
    std::vector<std::uint64_t> origin;
    std::vector<bool> makes_inputs;  // by op
  };

  StorageId row_of(StorageId id, Bytes bytes, bool born);
  TraceOp* touch(StorageId row, const char* made_by);
  static StorageRole role_of(const Step& step, std::size_t row);
  static Trace build(const Step& step);
  static void tell_what_continues(const Step& step, Trace& trace,
                                  const std::vector<std::optional<StorageId>>& renamed);

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Identity> identities_;
  Step current_;
  std::optional<Step> complete_;
  std::uint64_t generation_ = 0;  // of `current_`: an op open over a boundary belongs to none
  std::uint64_t complete_generation_ = 0;
};

/// The recorder of an engine, once there is one. Any thread.
class RecorderSlot {
 public:
  /// Null where nothing was ever recorded.
  [[nodiscard]] TraceRecorder* get() const { return recorder_.load(std::memory_order_acquire); }
  /// Makes it unless there is one. It is never replaced and lives as long as the engine, so that
  /// threads need no lock. Not by two threads at once.
  void make() {
    if (get() != nullptr) return;
    owned_ = std::make_unique<TraceRecorder>();
    recorder_.store(owned_.get());
  }
  /// Another thread may have held its lock when the process was forked: nobody ends it there.
  void abandon_in_child() {
    recorder_.store(nullptr);
    static_cast<void>(owned_.release());
  }

 private:
  std::unique_ptr<TraceRecorder> owned_;
  std::atomic<TraceRecorder*> recorder_{nullptr};
};

}  // namespace spillway::runtime
