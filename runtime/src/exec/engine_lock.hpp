// SPDX-License-Identifier: Apache-2.0
// The engine's lock, with what has to happen before it is taken and after it was let go.
//
//     EngineLock begins    a fork that is coming goes first | lock
//                ends      unlock | what remains of storages that died is destroyed: see Remains
//
// The parts of the engine share one EngineMutex; their functions say which need the lock. Whoever
// may start copies takes it as an EngineLock. Transfer threads, whose copies end, free the pages
// that remain themselves.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "spillway/runtime/exec/fork_gate.hpp"
#include "spillway/runtime/exec/framework.hpp"
#include "spillway/runtime/exec/remains.hpp"

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
  /// Destroyed after unlock. Under the lock.
  [[nodiscard]] Remains& remains() { return remains_; }

 private:
  friend class EngineLock;

  Framework& framework_;
  std::mutex mutex_;
  std::condition_variable settled_;
  ForkGate fork_gate_;
  Remains remains_;
};

class EngineLock {
 public:
  explicit EngineLock(EngineMutex& mutex) : mutex_(mutex), lock_(mutex.mutex_, std::defer_lock) {
    mutex.fork_gate_.pass();
    lock_.lock();
  }
  ~EngineLock() {
    if (mutex_.remains_.empty()) return;
    const Remains remains = std::exchange(mutex_.remains_, {});
    lock_.unlock();
    for (void* owner : remains.owners) mutex_.framework_.release(owner);
  }
  EngineLock(const EngineLock&) = delete;
  EngineLock& operator=(const EngineLock&) = delete;

  [[nodiscard]] std::unique_lock<std::mutex>& native() { return lock_; }
  /// Lets go of the lock to free the pages that remain, if any do: who is about to wait would hold
  /// them all that time. False if the lock was held all along, so that nothing has changed.
  bool free_pages() {
    if (mutex_.remains_.pages.empty()) return false;
    std::vector<HostPages> pages = std::exchange(mutex_.remains_.pages, {});
    lock_.unlock();
    pages.clear();
    mutex_.fork_gate_.pass();
    lock_.lock();
    return true;
  }

 private:
  EngineMutex& mutex_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace spillway::runtime
