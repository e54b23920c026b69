// SPDX-License-Identifier: Apache-2.0
// The engine's work in a forked child (DataLoader workers above all).
//
// The child gets copies of the parent's pages, but neither its transfer threads nor the right to
// write the spool file. So it manages nothing: new memory comes from malloc, frees of the parent's
// blocks are ignored, and a storage that was evicted is read from the inherited descriptor when it
// is used. What it holds counts in the budget that the processes share.
//
// Any thread of the child; takes the engine's lock itself.
#pragma once

#include <cstddef>

#include "budget_share.hpp"
#include "engine_lock.hpp"
#include "spillway/runtime/exec/framework.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

class ForkedChild {
 public:
  ForkedChild(EngineMutex& mutex, Framework& framework, DeviceTier& memory, Mover& mover,
              BudgetShare& budget)
      : mutex_(mutex), framework_(framework), memory_(memory), mover_(mover), budget_(budget) {}

  /// 64-byte aligned. Throws OutOfBudget where malloc has none.
  std::byte* allocate(std::size_t bytes);
  void free(std::byte* pointer) noexcept;
  /// Makes the storage accessible. False if its bytes cannot be read (`last_failure` says so).
  bool use(StorageRecord& record);

 private:
  EngineMutex& mutex_;
  Framework& framework_;
  DeviceTier& memory_;
  Mover& mover_;
  BudgetShare& budget_;
};

}  // namespace spillway::runtime
