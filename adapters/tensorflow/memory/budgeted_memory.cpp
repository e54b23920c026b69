// SPDX-License-Identifier: Apache-2.0
#include "budgeted_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "spillway/runtime/steady_time.hpp"

namespace spillway::tf {
namespace {

using runtime::Overbooking;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How long an allocation waits while nothing is freed: another thread's op may be about to end.
// The copies that it also waits for have their own end, since the disk answers or fails.
constexpr milliseconds kPatience{1000};
// How long until it looks again: a tensor becomes a victim when its last reader ends, which frees
// nothing and wakes nobody.
constexpr milliseconds kLook{20};
// How long ops under way have to end before what they use may leave: those that wait for memory
// themselves do not end.
constexpr milliseconds kForOps{100};
constexpr std::uint64_t kMostLeaving = 8;  // of the budget: one part in so many
constexpr std::size_t kOfSlabs = 64;       // what slabs and blocks are aligned to

struct Failure {
  std::string figures;
  bool refused = false;  // by the kernel
};
thread_local Failure failure;

}  // namespace

BudgetedMemory::BudgetedMemory(Bytes budget, runtime::Poison poison)
    : limit_(budget), memory_(budget, runtime::ArenaOptions{}) {
  memory_.set_poison(poison);
  // Objects in slabs are not poisoned.
  if (poison == runtime::Poison::kYes) memory_.set_small_objects(runtime::SmallObjects::kBlocks);
}

BudgetedMemory::Tried BudgetedMemory::try_locked(Bytes bytes, std::size_t alignment,
                                                 Overbooking overbooking) {
  memory_.take_freed(none_);
  Bytes wanted{std::max<std::uint64_t>(bytes.count, 1)};
  if (alignment > kOfSlabs) {
    // A place inside a block of its own, which `free` finds by any of its addresses.
    wanted = {
        std::max<std::uint64_t>(wanted.count + alignment, runtime::Slabs::kLargestObject + 1)};
  }
  const runtime::Allocation allocation = memory_.allocate(wanted, overbooking);
  std::byte* const pointer = allocation.pointer;
  if (pointer == nullptr) return {.short_by = allocation.short_by};
  ++allocations_;
  note_peaks_locked();
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  std::byte* const aligned =
      alignment <= kOfSlabs ? pointer : pointer + (alignment - address % alignment) % alignment;
  if (observer_ != nullptr) observer_->allocated(aligned, bytes, memory_.live());
  return {.pointer = aligned};
}

void BudgetedMemory::note_peaks_locked() {
  peak_held_ = std::max(peak_held_, memory_.budget().used() + charged_);
  peak_live_ = std::max(peak_live_, live_locked());
  peak_since_taken_ = std::max(peak_since_taken_, live_locked());
}

std::byte* BudgetedMemory::try_allocate(Bytes bytes, std::size_t alignment) {
  const std::lock_guard lock(mutex_);
  return try_locked(bytes, alignment, Overbooking::kRefuse).pointer;
}

std::byte* BudgetedMemory::allocate_now(Bytes bytes, std::size_t alignment) {
  const std::lock_guard lock(mutex_);
  const Tried tried = try_locked(bytes, alignment, Overbooking::kRefuse);
  if (tried.pointer == nullptr) fail_locked(bytes, tried.short_by);
  return tried.pointer;
}

std::byte* BudgetedMemory::try_allocate_spare(Bytes bytes, std::size_t alignment) {
  const std::lock_guard lock(mutex_);
  if (wanting_.load() != 0) return nullptr;
  return try_locked(bytes, alignment, Overbooking::kRefuse).pointer;
}

std::byte* BudgetedMemory::allocate_beyond(Bytes bytes, std::size_t alignment) {
  const std::lock_guard lock(mutex_);
  return try_locked(bytes, alignment, Overbooking::kAllow).pointer;
}

template <typename Attempt>
bool BudgetedMemory::wait_for(Bytes bytes, std::uint64_t seen, const Attempt& attempt) {
  auto quiet_since = Clock::now();
  bool asked_for_all = false;  // since then
  // Whoever gets no processor for longer than it has patience has not asked for all there is.
  while (!asked_for_all || Clock::now() - quiet_since < kPatience) {
    const bool for_all = Clock::now() - quiet_since >= kForOps;
    make_room(bytes, for_all ? Victims::kInUse : Victims::kIdle);
    const std::uint64_t now = wait_for_room(seen, kLook);
    {
      const std::lock_guard lock(mutex_);
      const std::optional<Bytes> short_by = attempt();
      if (!short_by) return true;
      if (short_by->count == 0) return false;
    }
    asked_for_all = for_all;
    if (now != seen || room_expected()) {
      quiet_since = Clock::now();
      asked_for_all = false;
    }
    seen = now;
  }
  return false;
}

TimeNs BudgetedMemory::begin_waiting() {
  wanting_.fetch_add(1);
  const TimeNs now = runtime::now_ns();
  if (observer_ != nullptr) observer_->begins_to_wait(now);
  return now;
}

void BudgetedMemory::end_waiting(TimeNs begun) {
  wanting_.fetch_sub(1);
  const TimeNs now = runtime::now_ns();
  if (observer_ != nullptr) observer_->has_waited(now);
  waited_ns_.fetch_add(now - begun);
}

template <typename Attempt>
bool BudgetedMemory::obtain(Bytes bytes, bool has_waited, const Attempt& attempt) {
  const std::uint64_t seen = frees_.load();
  {
    const std::lock_guard lock(mutex_);
    if (!attempt()) return true;
    if (!has_waited) ++waits_;
  }
  // A request that can never fit need not wait.
  if (bytes <= limit_) {
    const TimeNs begun = begin_waiting();
    const bool obtained = wait_for(bytes, seen, attempt);
    end_waiting(begun);
    if (obtained) return true;
  }
  const std::lock_guard lock(mutex_);
  // Once more: with what came since, the figures would say that it fits.
  const std::optional<Bytes> short_by = attempt();
  if (short_by) fail_locked(bytes, *short_by);
  return !short_by;
}

std::byte* BudgetedMemory::allocate(Bytes bytes, std::size_t alignment) {
  const bool has_waited = bytes.count > runtime::Slabs::kLargestObject && hold_back();
  std::byte* pointer = nullptr;
  obtain(bytes, has_waited, [&]() -> std::optional<Bytes> {
    const Tried tried = try_locked(bytes, alignment, Overbooking::kRefuse);
    pointer = tried.pointer;
    return pointer != nullptr ? std::nullopt : std::optional(tried.short_by);
  });
  return pointer;
}

bool BudgetedMemory::charge(Bytes bytes) {
  const bool has_waited = hold_back();
  return obtain(bytes, has_waited, [&] { return charge_locked(bytes); });
}

bool BudgetedMemory::try_charge(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  return !charge_locked(bytes);
}

std::optional<Bytes> BudgetedMemory::charge_locked(Bytes bytes) {
  memory_.take_freed(none_);
  Bytes short_by = saturating_sub(live_locked() + bytes, limit_);
  if (short_by.count != 0 && short_by <= memory_.in_empty_spans()) {
    memory_.drop_empty_spans();  // which count as live
    short_by = saturating_sub(live_locked() + bytes, limit_);
  }
  if (short_by.count != 0) return short_by;
  charged_ += bytes;
  memory_.set_limit(limit_ - charged_);
  // Pages that nobody needs count as held.
  if (memory_.budget().used() > memory_.budget().limit()) memory_.release_idle();
  note_peaks_locked();
  return std::nullopt;
}

void BudgetedMemory::uncharge(Bytes bytes) {
  {
    const std::lock_guard lock(mutex_);
    charged_ -= bytes;
    memory_.set_limit(limit_ - charged_);
  }
  wake();
}

bool BudgetedMemory::hold_back() {
  const Bytes most{limit_.count / kMostLeaving};
  if (leaving() <= most) return false;
  const TimeNs begun = begin_waiting();
  {
    std::unique_lock lock(mutex_);
    ++waits_;
    waiting_.fetch_add(1);
    room_.wait(lock, [this, most] { return leaving() <= most; });
    waiting_.fetch_sub(1);
  }
  end_waiting(begun);
  return true;
}

void BudgetedMemory::make_room(Bytes bytes, Victims victims) {
  if (!evict_) return;
  Bytes missing{};
  {
    const std::lock_guard lock(mutex_);
    memory_.take_freed(none_);
    missing = saturating_sub(live_locked() + bytes, limit_);
  }
  // It did not fit, so something is missing, be it for rounding.
  missing = saturating_sub(std::max(missing, Bytes{1}), leaving());
  if (missing.count != 0) evict_(missing, victims);
}

void BudgetedMemory::free(std::byte* pointer) noexcept {
  if (observer_ != nullptr) observer_->freed(pointer);
  memory_.free_later(pointer);
  frees_.fetch_add(1);
  // A waiting thread has said so before it looked for what was freed.
  if (waiting_.load() == 0) return;
  { const std::lock_guard lock(mutex_); }
  room_.notify_all();
}

void BudgetedMemory::expect_room(Bytes bytes) {
  copies_.fetch_add(1);
  leaving_.fetch_add(bytes.count);
}

void BudgetedMemory::room_came(Bytes bytes) {
  leaving_.fetch_sub(bytes.count);
  copies_.fetch_sub(1);
  wake();
}

void BudgetedMemory::wake() {
  frees_.fetch_add(1);
  { const std::lock_guard lock(mutex_); }
  room_.notify_all();
}

std::uint64_t BudgetedMemory::wait_for_room(std::uint64_t seen, milliseconds patience) {
  std::unique_lock lock(mutex_);
  waiting_.fetch_add(1);
  room_.wait_for(lock, patience, [this, seen] { return frees_.load() != seen; });
  waiting_.fetch_sub(1);
  return frees_.load();
}

void BudgetedMemory::fail_locked(Bytes bytes, Bytes short_by) {
  const Bytes have = saturating_sub(limit_, live_locked());
  ++failures_;
  failure.refused = short_by.count == 0 && bytes <= limit_;
  if (failure.refused) {
    last_short_ = {};
    failure.figures = fmt::format("need {}, have {} of {}, which the kernel refuses",
                                  to_string(bytes), to_string(have), to_string(limit_));
    return;
  }
  // Where the bytes would fit, their rounding to pages does not.
  const Bytes need = bytes > have ? bytes : have + short_by;
  last_short_ = need - have;
  failure.figures = fmt::format("need {}, have {} of {}, short {}", to_string(need),
                                to_string(have), to_string(limit_), to_string(last_short_));
}

std::string BudgetedMemory::last_failure() { return failure.figures; }

std::string BudgetedMemory::reason() const {
  if (failure.refused) {
    const std::lock_guard lock(mutex_);
    const runtime::MemoryRefusal refusal = memory_.refusal();
    return fmt::format("{} refuses memory for a tensor: {}. {} {}", refusal.by, failure.figures,
                       refusal.reason, refusal.remedy);
  }
  return fmt::format(
      "a tensor does not fit into the budget: {}. Give a larger SPILLWAY_BUDGET, or a smaller "
      "batch.{}{}",
      failure.figures, holders_ ? " " : "", holders_ ? holders_() : "");
}

MemoryUsage BudgetedMemory::usage() const {
  const std::lock_guard lock(mutex_);
  memory_.take_freed(none_);
  return {.budget = limit_,
          .held = memory_.budget().used() + charged_,
          .peak_held = peak_held_,
          .live = live_locked(),
          .peak_live = peak_live_,
          .allocations = allocations_,
          .waits = waits_,
          .failures = failures_,
          .last_short = last_short_,
          .waited_ns = waited_ns_.load()};
}

void BudgetedMemory::clear_peak() {
  const std::lock_guard lock(mutex_);
  memory_.take_freed(none_);
  peak_live_ = live_locked();
}

Bytes BudgetedMemory::take_peak() {
  const std::lock_guard lock(mutex_);
  memory_.take_freed(none_);
  return std::exchange(peak_since_taken_, live_locked());
}

void BudgetedMemory::before_fork() {
  mutex_.lock();
  memory_.take_freed(none_);
  memory_.before_fork();
}

void BudgetedMemory::after_fork(bool in_child) {
  if (in_child) {
    copies_.store(0);
    leaving_.store(0);
    wanting_.store(0);  // of threads that the child has not
  }
  mutex_.unlock();
}

}  // namespace spillway::tf
