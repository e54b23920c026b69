// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/unmanaged_gauge.hpp"

#include <algorithm>

namespace spillway::runtime {
namespace {

// What is loaded changes seldom, and asking the driver may take long: a hundredth of the time at
// most. While libraries load, a tenth.
constexpr TimeNs kEvery = 100'000'000;
constexpr TimeNs kEveryAtFirst = 10'000'000;
constexpr TimeNs kShare = 100;
constexpr TimeNs kShareAtFirst = 10;

// On an H100 (driver 580, CUDA 13.0, PyTorch 2.11, 2026-11-26) the context took 524 MiB; with all
// kernels of a CNN, a transformer or an LSTM loaded it was 694 to 708 MiB, a third more.
constexpr std::uint64_t kGrowthDivisor = 2;
// A module of kernels that a later part of the program is the first to launch. On an H200 and an
// H100 (as above) processes that had done three steps, with a context of 524 MiB, took 28 to 31 MiB
// more at once.
constexpr std::uint64_t kModuleDivisor = 16;

// The first step makes the optimizer's states, the second is the first whole one.
constexpr std::uint64_t kStepsUntilSettled = 3;
constexpr TimeNs kSettledAnyway = 60'000'000'000;  // of a program without steps

}  // namespace

bool UnmanagedGauge::claim_look(TimeNs now) {
  TimeNs due = look_at_.load(std::memory_order_relaxed);
  return now >= due && look_at_.compare_exchange_strong(due, now + kEvery);
}

void UnmanagedGauge::note_nothing(TimeNs began, TimeNs ended) {
  look_at_ = std::max(began + kEvery, ended + (ended - began) * kShare);
}

bool UnmanagedGauge::note(const Look& look) {
  const std::lock_guard lock(mutex_);
  const auto [least, most] = std::minmax(look.managed_before, look.managed_after);
  const Bytes before = held();
  const Bytes counted = saturating_sub(least, look.opening);
  const Bytes now = std::clamp(before, saturating_sub(look.process, most + look.pool),
                               saturating_sub(look.process, counted + look.pool));
  if (first_.count == 0) {
    first_ = now;
    first_at_ = look.began;
  }
  const Bytes expected_before = expected();
  const bool exact = least == most;
  settled_ =
      settled_ ||
      (exact && (look.steps >= kStepsUntilSettled || look.began - first_at_ >= kSettledAnyway));
  held_.store(now.count, std::memory_order_relaxed);
  expected_.store(expected_beside(now).count, std::memory_order_relaxed);
  const TimeNs taken = look.ended - look.began;
  look_at_ = settled_ ? std::max(look.began + kEvery, look.ended + taken * kShare)
                      : std::max(look.began + kEveryAtFirst, look.ended + taken * kShareAtFirst);
  return now != before || expected() != expected_before;
}

Bytes UnmanagedGauge::expected_beside(Bytes held) const {
  if (settled_) return Bytes{first_.count / kModuleDivisor};
  return saturating_sub(first_ + Bytes{first_.count / kGrowthDivisor}, held);
}

}  // namespace spillway::runtime
