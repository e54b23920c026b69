// SPDX-License-Identifier: Apache-2.0
// Lets a fork begin while other threads have copies to start.
//
//     forks        close | wait until no copy is in flight | fork | open
//     others         pass: wait ------------------------------------> go on
//
// Before a fork no copy may be in flight. Without the gate other threads would start the next ones
// while the forking thread waits for the last ones to end, for as long as they have any.
//
// Any thread may call. A caller of `pass` must hold no lock that the end of a copy, or the forking
// thread, needs.
#pragma once

#include <atomic>
#include <cstdint>

namespace spillway::runtime {

class ForkGate {
 public:
  /// A fork is coming. Called before anything is waited for.
  void close() { closed_.fetch_add(1); }
  /// It is over, or did not come. As often as `close`.
  void open();
  /// In the child, where nobody waits any more.
  void open_in_child();

  [[nodiscard]] bool closed() const { return closed_.load(std::memory_order_relaxed) != 0; }
  /// Before copies are started. One load where no fork is coming.
  void pass() {
    if (closed()) [[unlikely]]
      wait();
  }
  /// Threads that wait in `pass`.
  [[nodiscard]] std::uint32_t waiting() const { return waiting_.load(); }

 private:
  void wait();

  std::atomic<std::uint32_t> closed_{0};  ///< forks that are coming or under way
  std::atomic<std::uint32_t> waiting_{0};
};

}  // namespace spillway::runtime
