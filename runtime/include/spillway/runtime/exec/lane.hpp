// SPDX-License-Identifier: Apache-2.0
// One stream of ops, whichever threads issue them, with what is known of its step and of the ops to
// come.
//
//     thread A   forward ops ---.              .--- optimizer's ops
//     thread B                  '- backward ---'
//     lane       f f f f f f f f  b b b b b b b b  o o o o  |  f f f ...     one step
//
// Each thread has a lane of its own until it joins another thread's (Engine::join_lane): a data
// loader's ops are no part of the training step, but a backward pass is, even where a worker
// thread of an accelerator runs it. Pins stay with the thread, since they end with its frames.
//
// The recogniser counts the ops of the lane; the engine's clock, in which uses are compared, counts
// those of all. A lane's *pace* is how far the clock goes with each of its ops, over the step that
// was repeated last: 1 where no other lane has ops.
//
// Ops of threads that overlap count in the order in which they begin, and a touch counts for the op
// that began last. Thread-safe once it is shared; before that it is the one thread's, and costs no
// lock. Its lock is taken inside the engine's, or alone. Throws only std::bad_alloc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/exec/step_recogniser.hpp"

namespace spillway::runtime {

class Lane {
  /// Locks where there is somebody to lock out.
  class Guard {
   public:
    explicit Guard(Lane& lane) : mutex_(lane.shared_ ? &lane.mutex_ : nullptr) {
      if (mutex_ != nullptr) mutex_->lock();
    }
    ~Guard() {
      if (mutex_ != nullptr) mutex_->unlock();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    std::mutex* mutex_;
  };

 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Other threads may join from now on. Called by the one thread that is in it, between its ops.
  void share() { shared_ = true; }

  /// An op begins, at that time of the engine's clock. Returns whether the step was repeated since
  /// the op before.
  bool begin_op(std::uint64_t signature, bool boundary, std::uint64_t clock) {
    const Guard guard(*this);
    recogniser_.note_demand(std::exchange(demand_, {}).count);
    recogniser_.note_opened(opened_);
    opened_.clear();
    recogniser_.begin_op(signature, boundary);
    const std::uint64_t repetitions = recogniser_.steps_completed();
    const bool repeated = std::exchange(repetitions_, repetitions) != repetitions;
    if (repeated || measured_clock_ == 0) measure_pace(clock);
    return repeated;
  }

  struct NextUse {
    std::uint64_t ticks;  ///< how far the clock goes until then; kNeverUsed, or kUnknownUse
    bool leaves;          ///< the storage is to be away until then
  };
  /// The current op touches a storage, which takes that much of the device; 0: it cannot leave. It
  /// could be made again in the time `again`; 0: it could not.
  NextUse touch(StorageId storage, Bytes bytes, TimeNs again) {
    const Guard guard(*this);
    const std::uint64_t next = recogniser_.touch(to_value(storage), bytes, again);
    if (next == kNeverUsed || next == kUnknownUse) return {.ticks = next, .leaves = false};
    return {.ticks = rounded(static_cast<double>(next - recogniser_.op_index()) * pace_),
            .leaves = recogniser_.leaves()};
  }

  /// The current op needs so much, if nothing were away.
  void note_demand(Bytes bytes) {
    const Guard guard(*this);
    demand_ = std::max(demand_, bytes);
  }

  /// A block was opened for what the current op allocated.
  void note_opened(Bytes block) {
    const Guard guard(*this);
    opened_.push_back(block);
  }

  /// The needs of the step's ops, while it holds the lane: no other thread's op begins meanwhile.
  class Outlook {
   public:
    explicit Outlook(Lane& lane) : lane_(lane), guard_(lane) {}

    /// Whether the stream is in a step whose needs are known.
    [[nodiscard]] bool known() const { return lane_.recogniser_.demand() != nullptr; }
    /// Ops of the step. What follows needs `known`.
    [[nodiscard]] std::uint64_t period() const { return lane_.recogniser_.demand()->ops(); }
    /// Most bytes that any op of the step needs.
    [[nodiscard]] Bytes most() const { return {lane_.recogniser_.demand()->most()}; }
    /// Most that any of `count` ops needs, from the `first` one on; the current op is op 0.
    [[nodiscard]] Bytes most(std::uint64_t first, std::uint64_t count) const {
      return {lane_.recogniser_.demand()->most(lane_.recogniser_.place() + first, count)};
    }
    /// Chooses which storages are away when, for what is touched from now on.
    void choose_gaps(Bytes budget) { lane_.recogniser_.choose_gaps(budget); }
    /// Blocks that have to be opened for `count` ops behind the current one, in order.
    [[nodiscard]] std::vector<Bytes> opened(std::uint64_t count) const {
      return lane_.recogniser_.opened().coming(lane_.recogniser_.place() + 1, count);
    }
    /// Ops of the lane, at least one, while the clock goes so far.
    [[nodiscard]] std::uint64_t ops_in(std::uint64_t ticks) const {
      return rounded(static_cast<double>(ticks) / lane_.pace_);
    }
    /// Storages were set going along the step, or, `false`, are not any more. Returns what was said
    /// last.
    bool note_ahead(bool ahead) { return std::exchange(lane_.ahead_, ahead); }

   private:
    Lane& lane_;
    Guard guard_;
  };

  /// Ops of the loop that the stream was in last; 0: none was found yet.
  [[nodiscard]] std::uint64_t period() {
    const Guard guard(*this);
    return recogniser_.period();
  }

 private:
  static std::uint64_t rounded(double count) {
    return std::max<std::uint64_t>(static_cast<std::uint64_t>(std::llround(count)), 1);
  }
  void measure_pace(std::uint64_t clock) {
    const std::uint64_t op = recogniser_.op_index();
    if (op != measured_op_) {
      pace_ = static_cast<double>(clock - measured_clock_) / static_cast<double>(op - measured_op_);
    }
    measured_op_ = op;
    measured_clock_ = clock;
  }

  std::mutex mutex_;
  bool shared_ = false;
  StepRecogniser recogniser_;
  std::uint64_t repetitions_ = 0;  // recogniser_.steps_completed() when last looked at
  double pace_ = 1.0;
  std::uint64_t measured_op_ = 0;     // of the lane, and
  std::uint64_t measured_clock_ = 0;  // the clock, when the pace was measured; 0: before any op
  Bytes demand_{};                    // most that the current op needed so far
  std::vector<Bytes> opened_;         // for what the current op allocated
  bool ahead_ = false;                // see Outlook::note_ahead
};

}  // namespace spillway::runtime
