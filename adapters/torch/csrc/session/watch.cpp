// SPDX-License-Identifier: Apache-2.0
#include "session/watch.hpp"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "ops/op_facts.hpp"
#include "session/at_exit.hpp"
#include "session/awaited_card.hpp"
#include "session/cpu_allocator.hpp"
#include "session/small_versions.hpp"
#include "session/stale_pointer.hpp"
#include "spillway/base/error.hpp"
#include "spillway/runtime/output_files.hpp"
#include "threads/unseen_ops.hpp"

namespace spillway::torch {

namespace {

// An attempt costs some tens of microseconds, and most of those in vain would be so for ever.
constexpr std::uint32_t kAttemptsPerStep = 8;
// A program without optimizers only shows repetitions, which may be those of a few ops while it
// makes its model: it has to run this many ops first.
constexpr std::uint64_t kOpsBeforeRest = 50'000;
// On a card each rest costs two waits for it. Where a thread of the program's, such as a loader's,
// ends every one, they shall come ever more seldom.
constexpr std::uint32_t kMostStepsBeforeRest = 4096;
// A program that fits is not watched (see hook_rest.hpp): from some steps on whose peak stayed
// below the first share of the budget, until the allocator sees the second share in use.
constexpr double kRestBelow = 0.80;
constexpr double kWakeAbove = 0.90;

Bytes share_of(Bytes bytes, double share) {
  return {static_cast<std::uint64_t>(static_cast<double>(bytes.count) * share)};
}

}  // namespace

Watch& Watch::get() {
  static auto* watch = new Watch();
  return *watch;
}

Watch::Watch() : engine_(main_engine()), rest_(engine_) {}

void Watch::install() {
  if (Card* const card = Engines::get().card()) {
    card->install(engine_);
    card_ = card;
  } else {
    install_cpu_allocator(engine_);
  }
  install_stale_pointer_message();
  install_out_of_memory_errors();
  ::pthread_atfork([] { get().before_fork(); }, [] { get().after_fork(InChild::kNo); },
                   [] { get().after_fork(InChild::kYes); });
  write_at_exit();
  installed_ = true;
}

// So that the child finds every lock free, whichever thread held it. In the order in which they are
// taken elsewhere.
void Watch::before_fork() {
  mutex_.lock();
  hook_mutex_.lock();
  rest_.before_fork();
  Engines::get().each([](runtime::Engine& engine) { engine.before_fork(); });
  lock_op_facts();
}

void Watch::after_fork(InChild in_child) {
  unlock_op_facts();
  Engines::get().each([&](runtime::Engine& engine) {
    if (in_child == InChild::kYes) {
      engine.after_fork_in_child();
    } else {
      engine.after_fork_in_parent();
    }
  });
  rest_.after_fork();
  hook_mutex_.unlock();
  mutex_.unlock();
}

runtime::Settings Watch::checked(const runtime::Settings& stated) {
  if (!stated.planner.empty() || !stated.plan_cache.empty()) {
    throw UserError(
        "SPILLWAY_PLANNER, SPILLWAY_PLAN_CACHE: PyTorch's steps follow no planner's plan yet. "
        "Unset them.");
  }
  return runtime::with_checked_outputs(stated);
}

void Watch::start(const runtime::Settings& stated) {
  // A budget that is shared with the process which started this one is of the same device.
  const runtime::Settings settings = checked(stated);
  Engines::make_for(settings);
  get().apply(settings);
  end_waiting_for_card();
}

void Watch::apply(const runtime::Settings& settings) {
  const std::lock_guard lock(mutex_);
  if (!engine_.watching()) rest_.begin_watching(!hook_is_on());
  try {
    engine_.start(settings);
  } catch (...) {  // nothing has changed then
    wake();
    throw;
  }
  begin_all_small_versions();  // ops may have run that nobody saw
  set_kept_ops(settings.keep_ops);
  Engines::get().main().framework().set_null_pointers(settings.emulate_device.has_value());
  settings_ = settings;
  try {
    if (!installed_) install();
  } catch (...) {
    engine_.stop();
    wake();
    throw;
  }
  steps_looked_at_ = engine_.steps();
  marked_steps_ = engine_.steps_are_marked();
  fitting_steps_ = 0;
  switch_hook(true);
  wake();
}

void Watch::stop() {
  const std::lock_guard lock(mutex_);
  if (!installed_) return;
  Engines::get().each([](runtime::Engine& engine) { engine.stop(); });
  if (engine_.in_child()) return;  // the hook goes on reading back what was evicted
  wake();
  // Threads that go on running ops are in doubt while they do, and not ever after. See hook.cpp.
  if (!other_threads_run_ops()) switch_hook(false);
}

// Taken out, not only disabled: while any callback is registered, autograd copies the list of them
// before and after each node.
void Watch::switch_hook(bool on) {
  const std::lock_guard lock(hook_mutex_);
  if (hook_.has_value() == on) return;
  if (on) {
    hook_ = at::addGlobalCallback(hook_callback());
  } else {
    at::removeCallback(*std::exchange(hook_, std::nullopt));
  }
}

bool Watch::hook_is_on() {
  const std::lock_guard lock(hook_mutex_);
  return hook_.has_value();
}

// Looked at once per step.
bool Watch::fits_for_long() {
  // Until the first optimizer's step what repeated were parts of one step, and of that one only
  // what follows the last of them was looked at.
  if (engine_.steps_are_marked() && !marked_steps_.exchange(true)) {
    fitting_steps_ = 0;
    return false;
  }
  const bool fits = engine_.last_step_peak() < share_of(engine_.reach(), kRestBelow);
  fitting_steps_ = fits ? fitting_steps_ + 1 : 0;
  if (fitting_steps_ < steps_before_rest_ || engine_.mode() != runtime::Mode::kEnforce)
    return false;
  return engine_.steps_are_marked() || engine_.ops() >= kOpsBeforeRest;
}

void Watch::consider_rest(const at::RecordFunction& op) {
  const std::uint64_t steps = engine_.steps();
  if (steps != steps_looked_at_) {
    steps_looked_at_ = steps;
    attempts_left_ = fits_for_long() ? kAttemptsPerStep : 0;
  }
  if (attempts_left_ == 0) return;
  --attempts_left_;
  if (never_rests || keep_gradients || others_run_ops() || pool_is_open()) return;
  if (!rest_.begin(op)) return;
  attempts_left_ = 0;
  engine_.note_rest(true);
}

void Watch::note_optimizer_step() {
  if (rest_.rests()) {
    engine_.note_unwatched_step();
  } else {
    wake();  // on a card the thread may allocate nothing for long by which it would notice
  }
}

void Watch::consider_waking() {
  this_watched_thread();  // it may be about to run ops, whether these are watched or not
  if (rest_.is_over()) return;
  if (rest_.rests() && (engine_.live_now() >= share_of(engine_.reach(), kWakeAbove) ||
                        others_run_ops() || at::hasThreadLocalCallbacks())) {
    end_rest();
  }
  rest_.follow();
  if (engine_.live_now() >= engine_.reach()) HookRest::say_that_nothing_leaves();
}

void Watch::op_begins_while_blind(const at::RecordFunction& op) {
  if (rest_.is_over()) return;
  if (card_ != nullptr && rest_.rests()) {
    steps_before_rest_ = std::min(2 * steps_before_rest_, kMostStepsBeforeRest);
  }
  end_rest();
  if (!pool_is_open()) rest_.op_begins(op);
}

void Watch::doubt_this_thread() {
  this_watched_thread().doubt();
  rest_.begin_watching(false);
}

void Watch::wake() {
  if (rest_.is_over()) return;
  end_rest();
  if (pool_is_open()) {
    rest_.follow();
  } else {
    rest_.called_by_python();
  }
}

// Autograd has a thread of its own for a card, which works for the thread that rests.
bool Watch::others_run_ops() const { return card_ == nullptr && runtime::framed_threads() != 1; }

// Then a graph may be being captured, which waiting for the card would end: doubt lasts until it
// is.
bool Watch::pool_is_open() const { return card_ != nullptr && cuda::pool_is_open(); }

void Watch::end_rest() {
  if (!rest_.end()) return;
  begin_all_small_versions();
  fitting_steps_ = 0;
  engine_.note_rest(false);
  steps_looked_at_ = engine_.steps();  // what was counted meanwhile was not looked at
  engine_.forgive_this_step();
}

}  // namespace spillway::torch
