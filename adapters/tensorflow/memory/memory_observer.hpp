// SPDX-License-Identifier: Apache-2.0
// Hears of each allocation and each free, and of waits for memory, for a record of the step.
#pragma once

#include <cstddef>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"

namespace spillway::tf {

/// Called by any thread, in the order in which memory is given and taken: an address is freed
/// before it is allocated again. The memory's lock may be held, so an observer calls nothing of it
/// that takes one.
class MemoryObserver {
 public:
  MemoryObserver() = default;
  virtual ~MemoryObserver() = default;
  MemoryObserver(const MemoryObserver&) = delete;
  MemoryObserver& operator=(const MemoryObserver&) = delete;

  /// `live`: of all that is allocated, this included.
  virtual void allocated(const std::byte* pointer, Bytes bytes, Bytes live) = 0;
  virtual void freed(const std::byte* pointer) noexcept = 0;

  /// The calling thread waits for room from now on, or has ended to. No lock is held.
  virtual void begins_to_wait(TimeNs now) = 0;
  virtual void has_waited(TimeNs now) = 0;
};

}  // namespace spillway::tf
