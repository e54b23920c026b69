// SPDX-License-Identifier: Apache-2.0
#include "troubles.hpp"

#include <cstdio>

namespace spillway::tf {

void Troubles::note_stays(const std::string& reason) {
  if (reason.empty() || stays_.exchange(true)) return;
  std::fprintf(stderr, "spillway: a tensor that was to leave stays %s: %s\n", where_,
               reason.c_str());
}

void Troubles::note_unsound(const std::string& reason) {
  if (unsound_.exchange(true)) return;
  std::fprintf(stderr, "spillway: %s\n", reason.c_str());
}

void Troubles::note_failure(const std::string& reason) {
  table_.give_up();
  if (failed_.exchange(true)) return;
  std::fprintf(stderr, "spillway: %s\n", reason.c_str());
}

void Troubles::note_overshoot(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  overshoot_ = reason;
  overshot_.store(true);
}

std::string Troubles::take_overshoot() {
  if (!overshot_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(mutex_);
  return overshot_.exchange(false) ? overshoot_ : std::string();
}

}  // namespace spillway::tf
