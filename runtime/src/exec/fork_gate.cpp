// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/fork_gate.hpp"

namespace spillway::runtime {

void ForkGate::open() {
  closed_.fetch_sub(1);
  closed_.notify_all();
}

void ForkGate::open_in_child() {
  closed_.store(0);
  waiting_.store(0);
}

void ForkGate::wait() {
  waiting_.fetch_add(1);
  while (const std::uint32_t closed = closed_.load()) closed_.wait(closed);
  waiting_.fetch_sub(1);
}

}  // namespace spillway::runtime
