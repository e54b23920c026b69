// SPDX-License-Identifier: Apache-2.0
// The engine's lock, with what has to happen before it is taken and after it was let go.
//
//     EngineLock begins    a fork that is coming goes first | lock
//                ends      unlock | the framework destroys the handles of storages that died
//
// Destroying a handle may take the framework's own locks, so it never happens under this one. The
// parts of the engine share one EngineMutex; their functions say which need the lock. Whoever may
// start copies takes it as an EngineLock.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "spillway/runtime/exec/fork_gate.hpp"
#include "spillway/runtime/exec/framework.hpp"

namespace spillway::runtime {

class EngineMutex {
 public:
  explicit EngineMutex(Framework& framework) : framework_(framework) {}
  EngineMutex(const EngineMutex&) = delete;
  EngineMutex& operator=(const EngineMutex&) = delete;

  [[nodiscard]] std::mutex& mutex() { return mutex_; }
  /// Notified when a copy ends, when a frame ends that others wait for, and when limits change.
  [[nodiscard]] std::condition_variable& settled() { return settled_; }
  [[nodiscard]] ForkGate& fork_gate() { return fork_gate_; }
  /// Handles of storages that died: they are destroyed after unlock. Under the lock.
  [[nodiscard]] std::vector<void*>& dead_owners() { return dead_owners_; }

 private:
  friend class EngineLock;

  Framework& framework_;
  std::mutex mutex_;
  std::condition_variable settled_;
  ForkGate fork_gate_;
  std::vector<void*> dead_owners_;
};

class EngineLock {
 public:
  explicit EngineLock(EngineMutex& mutex) : mutex_(mutex), lock_(mutex.mutex_, std::defer_lock) {
    mutex.fork_gate_.pass();
    lock_.lock();
  }
  ~EngineLock() {
    if (mutex_.dead_owners_.empty()) return;
    const std::vector<void*> owners = std::exchange(mutex_.dead_owners_, {});
    lock_.unlock();
    for (void* owner : owners) mutex_.framework_.release(owner);
  }
  EngineLock(const EngineLock&) = delete;
  EngineLock& operator=(const EngineLock&) = delete;

  [[nodiscard]] std::unique_lock<std::mutex>& native() { return lock_; }

 private:
  EngineMutex& mutex_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace spillway::runtime
