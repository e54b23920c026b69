// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/memory_budget.hpp"

#include <algorithm>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

MemoryReservation& MemoryReservation::operator=(MemoryReservation&& other) noexcept {
  if (this != &other) {
    cancel();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

void MemoryReservation::spend(Bytes bytes) {
  SPILLWAY_CHECK(bytes <= bytes_, to_string(bytes) + " of " + to_string(bytes_));
  bytes_ -= bytes;
}

void MemoryReservation::cancel() {
  if (budget_ != nullptr && bytes_.count != 0) budget_->give_back(bytes_);
  budget_ = nullptr;
  bytes_ = {};
}

std::optional<MemoryReservation> MemoryBudget::try_reserve(Bytes bytes, Overbooking overbooking) {
  if (bytes > available() && bytes.count != 0 && overbooking == Overbooking::kRefuse) return {};
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  overshoot_ = std::max(overshoot_, saturating_sub(used_, limit()));
  return MemoryReservation(this, bytes);
}

void MemoryBudget::give_back(Bytes bytes) { used_ -= bytes; }

void MemoryBudget::reset_peak() {
  peak_ = used_;
  overshoot_ = saturating_sub(used_, limit());
}

}  // namespace spillway::runtime
