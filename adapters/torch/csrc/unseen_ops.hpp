// SPDX-License-Identifier: Apache-2.0
// Ops that began while the hook was off. Nothing pins what they use, so nothing may be evicted
// while one may still be running.
//
//     hook off | A: ---- unseen op ------------|   hook on, blind           | hook on, trusted
//              | B:        - allocates: wakes -|   A: --------------| op -> |
//
// Whether a thread is inside an op is read from its dispatch keys: ops that call others do so below
// autograd, with autograd's keys excluded. In inference mode they always are, and in factories such
// as torch.full; there a thread counts the entries into the dispatcher on its own stack.
#pragma once

#include <atomic>
#include <cstdint>

#include "torch_headers.hpp"

namespace spillway::torch {

/// What a thread shows of itself to others, for as long as it lives.
class WatchedThread {
 public:
  WatchedThread();
  ~WatchedThread();
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;

  /// Frames that the hook has seen begin: what they use is pinned.
  void set_inside_seen_op(bool inside) { seen_.store(inside, std::memory_order_relaxed); }
  /// Read by any thread.
  [[nodiscard]] bool may_be_inside_unseen_op() const;

 private:
  const c10::impl::PODLocalDispatchKeySet* keys_;
  std::atomic<bool> seen_{false};
};

/// An op begins in this thread: whether it began in the thread's own code, not inside an unseen
/// one.
[[nodiscard]] bool began_at_top();

/// Whether a thread other than this one may be inside an unseen op. Only threads are known in which
/// the hook has seen an op. Takes a lock that no other is taken under.
[[nodiscard]] bool others_may_be_inside_unseen_ops(const WatchedThread& self);

}  // namespace spillway::torch
