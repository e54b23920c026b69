// SPDX-License-Identifier: Apache-2.0
// Says what went wrong while a program runs: each kind once, in one sentence on stderr.
//
// Thread-safe. Nothing else is locked while its lock is held.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "swap_table.hpp"

namespace spillway::tf {

class Troubles {
 public:
  /// `where` says in what a tensor stays: `in memory`, `on the card`. Both outlive this.
  Troubles(SwapTable& table, const char* where) : table_(table), where_(where) {}

  /// A tensor could not be copied and stays. Nothing is said of an empty reason.
  void note_stays(const std::string& reason);
  /// Copies are not sound: said also where a tensor stayed before for another reason.
  void note_unsound(const std::string& reason);
  /// `reason` kept an allocation or a swap-in from memory: has everything copied from now on, and
  /// says so where it is the first. Each failing op has its own reason in its error.
  void note_failure(const std::string& reason);

  /// For `reason` memory was given beyond the budget, since a refusal would have been a fault. The
  /// next pair fails its step with it.
  void note_overshoot(const std::string& reason);
  /// The reason, once; empty where there is none.
  std::string take_overshoot();

  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  SwapTable& table_;
  const char* where_;
  std::atomic<bool> stays_{false};
  std::atomic<bool> unsound_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> overshot_{false};
  std::mutex mutex_;
  std::string overshoot_;  // the reason, while overshot_
};

}  // namespace spillway::tf
