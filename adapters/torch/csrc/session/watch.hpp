// SPDX-License-Identifier: Apache-2.0
// Switches on and off whether the ops of this process are watched, and by which settings: the hook
// is registered while they are, and rests where the program fits.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "session/engines.hpp"
#include "spillway/runtime/exec/engine.hpp"
#include "spillway/runtime/settings.hpp"
#include "threads/hook_rest.hpp"
#include "torch_headers.hpp"

namespace spillway::torch {

/// One per process, made at the first use and never destroyed: storages outlive main.
class Watch {
 public:
  static Watch& get();

  /// The settings, if a start by them may be tried: with the files that are to be written as
  /// absolute paths. Throws UserError where torch follows no such settings. Starts nothing.
  static runtime::Settings checked(const runtime::Settings& stated);
  /// Installs allocator and hook (once) and applies the settings. Throws UserError.
  static void start(const runtime::Settings& stated);
  /// Everything comes back, nothing moves any more, ops are not watched. Storages keep their
  /// memory.
  void stop();

  [[nodiscard]] const runtime::Settings& settings() const { return settings_; }

  /// Called by the hook when an op ended that was inside no other: the calling thread is watched no
  /// more when the program fits.
  void consider_rest(const at::RecordFunction& op);
  /// Called by the allocator: ends the rest when the program may no longer fit.
  void consider_waking();
  /// Called by the hook while the engine is blind: `op` begins, inside no op that was seen.
  void op_begins_while_blind(const at::RecordFunction& op);
  /// The calling thread may be inside an op that was not seen.
  void doubt_this_thread();
  /// Called by Python: the calling thread's ops are watched from now on. It may rest again.
  void wake();
  /// Distributed training is in use: nothing rests any more, since the buffers of collectives that
  /// nobody sees begin would not be kept.
  static void never_rest() { never_rests.store(true); }
  /// An optimizer's step begins: counted here while the hook rests.
  void note_optimizer_step();

  /// DistributedDataParallel is in use: gradients never move.
  inline static std::atomic<bool> keep_gradients{false};
  /// The results of ops never move now: DistributedDataParallel is allocating its buckets.
  inline static std::atomic<bool> keep_made{false};

 private:
  enum class InChild : bool { kNo, kYes };

  Watch();
  void apply(const runtime::Settings& settings);
  void install();
  void before_fork();
  void after_fork(InChild in_child);
  void switch_hook(bool on);
  bool hook_is_on();
  bool fits_for_long();
  void end_rest();
  [[nodiscard]] bool others_run_ops() const;
  [[nodiscard]] bool pool_is_open() const;

  runtime::Engine& engine_;     // the one whose frames ops open
  const Card* card_ = nullptr;  // whose engine it is, if it is a card's
  runtime::Settings settings_;
  std::mutex mutex_;  // start and stop
  bool installed_ = false;
  std::mutex hook_mutex_;  // its registration; taken after mutex_
  std::optional<at::CallbackHandle> hook_;
  HookRest rest_;
  inline static std::atomic<bool> never_rests{false};
  std::atomic<std::uint32_t> attempts_left_{0};  // to rest, in this step
  std::atomic<std::uint64_t> steps_looked_at_{0};
  std::atomic<bool> marked_steps_{false};  // what was looked at last were steps of an optimizer
  std::atomic<std::uint32_t> fitting_steps_{0};      // in a row, up to the last
  std::atomic<std::uint32_t> steps_before_rest_{3};  // that have to fit in a row; grows on a card
};

/// The callbacks of hook.cpp.
at::RecordFunctionCallback hook_callback();

/// An error found where no exception may leave; raised by the next allocation of the
/// running op, or when it accesses what could not be brought back: see out_of_memory.cpp.
void set_pending_failure(const std::string& text,
                         runtime::FailureKind kind = runtime::FailureKind::kShortage);
void clear_pending_failure();
bool has_pending_failure();
/// Throws it, as torch.OutOfMemoryError if memory was short; nothing if there is none.
void raise_pending_failure();
/// From now on errors of ops that run out of memory are torch.OutOfMemoryError in every case.
void install_out_of_memory_errors();

}  // namespace spillway::torch
