// SPDX-License-Identifier: Apache-2.0
// A wait that may be revoked before the thread that began it knows its ticket.
//
//     begins: register for cancellation, ticket = wait(...) ── know(ticket) ──> true: end it
//     cancels:                    └─ revoke(): no ticket yet ────^      or ──> true: end it
//
// Whoever of the two comes second takes the wait back. At most one of the two calls returns true,
// and only if the wait was taken back, so is never called; the caller then answers for it.
// Thread-safe; `take_back` is called with no lock held.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace spillway::tf {

class RevocableWait {
 public:
  using Ticket = std::uint64_t;  // 0: the wait has ended

  /// `take_back`: false if the wait has ended, or is ending.
  explicit RevocableWait(std::function<bool(Ticket)> take_back)
      : take_back_(std::move(take_back)) {}

  bool revoke() {
    Ticket ticket = 0;
    {
      const std::lock_guard lock(mutex_);
      revoked_ = true;
      ticket = ticket_;
    }
    return ticket != 0 && take_back_(ticket);
  }
  bool know(Ticket ticket) {
    {
      const std::lock_guard lock(mutex_);
      ticket_ = ticket;
      if (!revoked_) return false;
    }
    return ticket != 0 && take_back_(ticket);
  }

 private:
  const std::function<bool(Ticket)> take_back_;
  std::mutex mutex_;
  Ticket ticket_ = 0;
  bool revoked_ = false;
};

}  // namespace spillway::tf
