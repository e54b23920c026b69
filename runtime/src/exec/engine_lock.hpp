// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "spillway/runtime/exec/engine.hpp"

namespace spillway::runtime {

/// The engine's lock, for all that may start copies: it lets a fork that is coming go first. On the
/// way out it unlocks first and then lets the framework destroy the handles of storages that died
/// meanwhile: destroying them may take the framework's own locks.
class Engine::Lock {
 public:
  explicit Lock(Engine& engine) : engine_(engine), lock_(engine.mutex_, std::defer_lock) {
    engine.fork_gate_.pass();
    lock_.lock();
  }
  ~Lock() {
    if (engine_.dead_owners_.empty()) return;
    const std::vector<void*> owners = std::exchange(engine_.dead_owners_, {});
    lock_.unlock();
    for (void* owner : owners) engine_.framework_.release(owner);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  std::unique_lock<std::mutex>& native() { return lock_; }

 private:
  Engine& engine_;
  std::unique_lock<std::mutex> lock_;
};

/// A budget that nothing exceeds.
inline constexpr Bytes kNoLimit{std::uint64_t{1} << 62};

/// Monotonic nanoseconds.
TimeNs now_ns();

/// Copies that may fail one after the other before room is no longer waited for. Each of them was
/// tried several times (see TransferPool).
inline constexpr std::uint64_t kMostFailures = 8;

/// Whether nothing that the engine knows of keeps the storage where it is.
bool can_leave(const StorageRecord& record, Bytes min_size);

/// With the budget that a process shares, if it has none of its own.
Settings with_shared_budget(Settings settings);

/// Sets the text of Engine::last_failure on the calling thread.
void set_last_failure(std::string text, FailureKind kind = FailureKind::kShortage);

}  // namespace spillway::runtime
