// SPDX-License-Identifier: Apache-2.0
// The memory of a card as the framework's allocator for it counts it. The framework keeps to the
// budget by itself: the Python package sets it as the limit of the card's logical device
// (python/spillway/_card.py) before there is one. Here that is looked at, and the peak is read.
//
// The allocator counts as its callers launch: memory is free again for whoever launches next, be it
// that the card still works on what lay there. Thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "budgeted_memory.hpp"
#include "spillway/base/bytes.hpp"
#include "tensorflow/core/framework/allocator.h"

namespace spillway::tf {

class CardMemory {
 public:
  explicit CardMemory(Bytes budget) : budget_(budget) {}

  /// The card's allocator, as an op has it. Why its tensors must not be managed: it may hold more
  /// than the budget. Empty where it may not. Costs one read from the second call on.
  std::string meet(::tensorflow::Allocator& allocator);

  /// The peak since it was last taken: the allocator counts anew from here. 0 before meet().
  Bytes take_peak();

  [[nodiscard]] MemoryUsage usage();

 private:
  const Bytes budget_;
  std::atomic<::tensorflow::Allocator*> allocator_{nullptr};
  std::mutex mutex_;
  Bytes peak_{};  // until it was last taken
};

}  // namespace spillway::tf
